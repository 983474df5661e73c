/** One window of the editor, as a person uses it: keys, the palette, the status bar, messages, trees, editors. */

import { mkdirSync } from "node:fs";
import * as path from "node:path";

import type { Locator, Page } from "playwright-core";

import { OUT } from "./installed.ts";
import { until } from "./waiting.ts";
import type { Settings, World } from "./world.ts";

const START_MS = 120_000;
/** For clicks and what else Playwright waits for by itself. */
const ACTION_MS = 60_000;

/** A row of a quick pick; a separator has only its label. */
export interface Row {
  readonly label: string;
  readonly description: string;
  readonly detail: string;
  readonly separator: string;
  readonly isFocused: boolean;
}

export interface TreeRow {
  readonly label: string;
  readonly description: string;
  readonly level: number;
}

export class Workbench {
  private constructor(readonly page: Page) {}

  static async open(page: Page, address: string): Promise<Workbench> {
    await page.addInitScript("globalThis.__name = (given) => given"); // tsx wraps named functions, also those of evaluate()
    page.setDefaultTimeout(ACTION_MS);
    await page.goto(address, { timeout: START_MS });
    await page.locator(".monaco-workbench .statusbar-item").first().waitFor({ timeout: START_MS });
    return new Workbench(page);
  }

  /** Saves a picture of the window as out/screenshots/NAME.png. */
  async screenshot(name: string): Promise<void> {
    const directory = path.join(OUT, "screenshots");
    mkdirSync(directory, { recursive: true });
    await this.page.screenshot({ path: path.join(directory, `${name}.png`), animations: "disabled", caret: "hide" });
  }

  // Commands and quick input

  /** Runs the command that the palette lists as `title`, for instance `Palace: Recall…`. */
  async command(title: string | RegExp): Promise<void> {
    await this.#openPalette(typeof title === "string" ? title : title.source.replaceAll(/[\^\\]/g, ""));
    const isIt = (row: Row): boolean => (typeof title === "string" ? row.label === title : title.test(row.label));
    let seenChosen = 0;
    const isChosen = async (): Promise<boolean> => {
      const rows = await this.rows();
      seenChosen = rows.some((row) => row.isFocused && isIt(row)) ? seenChosen + 1 : 0;
      if (seenChosen === 0 && rows.some(isIt)) await this.page.keyboard.press("ArrowDown");
      return seenChosen > 1; // once more: a list that is still being filtered moves its focus
    };
    await until(`the palette offers ${String(title)}`, isChosen, { seen: () => this.rows() });
    await this.page.keyboard.press("Enter");
  }

  /** Whether the palette lists a command so named. */
  async offers(title: string): Promise<boolean> {
    await this.#openPalette(title);
    await until("the palette lists something", async () => (await this.rows()).length > 0);
    const isOffered = (await this.rows()).some((row) => row.label === title);
    await this.closeQuickInput();
    return isOffered;
  }

  async #openPalette(title: string): Promise<void> {
    const isOpen = async (): Promise<boolean> => (await this.isQuickInputOpen()) && (await this.quickInputState()).value.startsWith(">");
    await until("the command palette is open and asked", async () => {
      if (!(await isOpen())) {
        await this.closeQuickInput();
        await this.page.keyboard.press("F1");
        await this.input.waitFor({ timeout: 3_000 });
      }
      // What ran before may still close it, or take it for itself.
      if (await isOpen()) await this.input.fill(`>${title.replace(/…$/, "")}`, { timeout: 3_000 });
      return await isOpen();
    });
  }

  async closeQuickInput(): Promise<void> {
    await until("the quick input is closed", async () => {
      if (!(await this.isQuickInputOpen())) return true;
      await this.page.keyboard.press("Escape");
      return !(await this.isQuickInputOpen());
    });
  }

  get quickPick(): Locator {
    return this.page.locator(".quick-input-widget");
  }

  get input(): Locator {
    return this.quickPick.locator("input[type=text]");
  }

  /** The rows of the open quick pick that are in sight, from the top. */
  async rows(): Promise<Row[]> {
    return await this.page.evaluate(() => {
      const text = (root: Element, selector: string): string => {
        const found = root.querySelector<HTMLElement>(selector);
        const isShown = found !== null && found.offsetParent !== null; // the list uses its rows again, with what stood in them
        return isShown ? found.textContent.replaceAll("\u00a0", " ").trim() : "";
      };
      const rows = [...document.querySelectorAll(".quick-input-list .monaco-list-row")];
      rows.sort((one, other) => Number(one.getAttribute("data-index")) - Number(other.getAttribute("data-index")));
      return rows.map((row) => ({
        label: text(row, ".quick-input-list-row .label-name"),
        description: text(row, ".quick-input-list-row .label-description"),
        detail: text(row, ".quick-input-list-label-meta"),
        separator: text(row, ".quick-input-list-separator"),
        isFocused: row.classList.contains("focused"),
      }));
    });
  }

  /** The texts beside and below the input: title, message, busy or not. */
  async quickInputState(): Promise<{ title: string; placeholder: string; message: string; isBusy: boolean; value: string }> {
    return await this.page.evaluate(() => {
      const root = document.querySelector<HTMLElement>(".quick-input-widget");
      const text = (selector: string): string => (root?.querySelector(selector)?.textContent ?? "").trim();
      const input = root?.querySelector("input");
      return {
        title: text(".quick-input-title"),
        placeholder: input?.getAttribute("placeholder") ?? "",
        message: text(".quick-input-message"),
        isBusy: Boolean(root?.querySelector(".monaco-progress-container.active")),
        value: input?.value ?? "",
      };
    });
  }

  async isQuickInputOpen(): Promise<boolean> {
    return await this.quickPick.isVisible();
  }

  /** The tooltips of the buttons in the quick pick's title and beside its input. */
  async quickInputButtons(): Promise<string[]> {
    const found = this.quickPick.locator(".quick-input-titlebar .action-label, .quick-input-inline-action-bar .action-label, .quick-input-header .action-label");
    return await found.evaluateAll((all) => all.map((one) => one.getAttribute("aria-label") ?? one.getAttribute("title") ?? ""));
  }

  /** Presses a button of the quick pick, by the beginning of its tooltip. */
  async pressQuickInputButton(tooltip: string): Promise<void> {
    await this.quickPick.locator(`.action-label[aria-label^="${tooltip}"]`).first().click();
  }

  /** Presses a button of a row of the quick pick, again where an answer that came just then has taken the press. */
  async pressRowButton(row: Locator, tooltip: string, hasWorked: () => Promise<boolean>): Promise<void> {
    const button = row.locator(`.action-label[aria-label^="${tooltip}"]`).first();
    await until(`the row's button ${tooltip} has worked`, async () => {
      if (await hasWorked()) return true;
      await row.hover({ timeout: 2_000 }); // shows the buttons; an answer that comes now hides them again
      await button.click({ timeout: 1_000 });
      return await until("it works", hasWorked, { limitMs: 5_000 });
    }, { seen: () => this.rows() });
  }

  row(index: number): Locator {
    return this.page.locator(`.quick-input-list .monaco-list-row[data-index="${String(index)}"]`);
  }

  /** Changes settings as a person does: in the editor, saved. Those of the machine are where paths and programs stand. */
  async changeSettings(world: World, changes: Settings, scope: "machine" | "user" = "user"): Promise<void> {
    await this.command(scope === "user" ? "Preferences: Open User Settings (JSON)" : /^Preferences: Open Remote Settings \(JSON\)/);
    await until("the settings are open", async () => (await this.tabs())[0] === "settings.json" && (await this.editorText()).includes("{"), { seen: () => this.tabs() });
    await this.page.locator(".editor-group-container.active .monaco-editor .view-lines").click({ position: { x: 200, y: 5 } });
    await this.page.keyboard.press("Control+A");
    await this.page.keyboard.insertText(world.changed(changes, scope));
    await this.page.keyboard.press("Control+S");
    await until("the settings are saved", async () => (await this.page.locator(".tab.active.dirty").count()) === 0);
    await this.command("View: Close Editor");
    await until("the settings are closed", async () => !(await this.tabs()).includes("settings.json"), { seen: () => this.tabs() });
  }

  // Status bar, messages

  /** The text of the extension's item in the status bar, or undefined where there is none. */
  async status(): Promise<{ text: string; label: string; isError: boolean } | undefined> {
    // In one step: a locator would wait for an item that goes away between counting and reading.
    return await this.page.evaluate(() => {
      const element = document.querySelector('.statusbar-item[id^="palace.palace-recall"]');
      if (!element) return undefined;
      return {
        text: element.textContent.replaceAll("\u00a0", " ").trim(),
        label: element.querySelector("a")?.getAttribute("aria-label") ?? element.getAttribute("aria-label") ?? "",
        isError: element.classList.contains("error-kind") || element.classList.contains("warning-kind"),
      };
    });
  }

  /** Begins to note every text that the status item shows; the function it returns tells them. */
  async recordStatus(): Promise<() => Promise<string[]>> {
    await this.page.evaluate(() => {
      const bar = document.querySelector(".part.statusbar");
      const seen: string[] = [];
      Object.assign(globalThis, { palaceStatusSeen: seen });
      if (!bar) return;
      new MutationObserver(() => {
        const text = document.querySelector('.statusbar-item[id^="palace.palace-recall"]')?.textContent ?? "";
        if (seen.at(-1) !== text) seen.push(text);
      }).observe(bar, { subtree: true, childList: true, characterData: true });
    });
    return async () => await this.page.evaluate(() => (globalThis as unknown as { palaceStatusSeen: string[] }).palaceStatusSeen);
  }

  async clickStatus(): Promise<void> {
    await this.page.locator(`.statusbar-item[id^="palace.palace-recall"] a`).first().click();
  }

  /** Waits for a status that fits. */
  async untilStatus(fits: RegExp, limitMs = 120_000): Promise<string> {
    return await until(
      `the status bar says ${String(fits)}`,
      async () => {
        const status = await this.status();
        return status && (fits.test(status.text) || fits.test(status.label)) ? status.text : undefined;
      },
      { limitMs, seen: () => this.status() },
    );
  }

  async notifications(): Promise<string[]> {
    return await this.page
      .locator(".notification-toast .notification-list-item-message")
      .evaluateAll((all) => all.map((one) => one.textContent.replaceAll("\u00a0", " ").trim()));
  }

  async untilNotification(fits: RegExp, limitMs?: number): Promise<string> {
    const options = { seen: () => this.notifications(), ...(limitMs === undefined ? {} : { limitMs }) };
    return await until(`a message says ${String(fits)}`, async () => (await this.notifications()).find((text) => fits.test(text)), options);
  }

  /** The texts of all messages, of those as well that the editor has put away by now; opens the list of them. */
  async allNotifications(): Promise<string[]> {
    await this.#openNotifications();
    const found = this.page.locator(".notifications-center .notification-list-item-message");
    return await found.evaluateAll((all) => all.map((one) => one.textContent.replaceAll("\u00a0", " ").trim()));
  }

  async #openNotifications(): Promise<void> {
    const list = this.page.locator(".notifications-center.visible");
    await until("the list of messages is open", async () => {
      if ((await list.count()) > 0) return true;
      await this.page.locator("#status\\.notifications").click({ timeout: 3_000 });
      return (await list.count()) > 0;
    });
  }

  /** Presses a button of a message, be it put away by now. */
  async pressNotification(fits: RegExp, button: string): Promise<void> {
    const shown = this.page.locator(".notification-toast, .notifications-center .notification-list-item").filter({ hasText: fits }).first();
    await until(`${button} is pressed`, async () => {
      if (!(await shown.isVisible())) await this.#openNotifications();
      await shown.locator(".monaco-button", { hasText: exactly(button) }).click({ timeout: 3_000 });
      return true;
    }, { seen: () => this.notifications() });
  }

  async clearNotifications(): Promise<void> {
    await this.command("Notifications: Clear All Notifications");
  }

  /** The modal dialog's text. */
  async untilDialog(fits: RegExp): Promise<string> {
    const box = this.page.locator(".monaco-dialog-box");
    return await until(`a dialog says ${String(fits)}`, async () => {
      const text = (await box.allInnerTexts())[0] ?? "";
      return fits.test(text) ? text : undefined;
    });
  }

  async pressDialog(button: string): Promise<void> {
    await this.page.locator(".monaco-dialog-box .monaco-button", { hasText: exactly(button) }).click();
  }

  // Trees

  /** The rows of the extension's view that are in sight. */
  async tree(): Promise<TreeRow[]> {
    return await this.page.locator(".sidebar .tree-explorer-viewlet-tree-view .monaco-list-row").evaluateAll((all) =>
      all
        .sort((one, other) => Number(one.getAttribute("data-index")) - Number(other.getAttribute("data-index")))
        .map((row) => ({
          label: (row.querySelector(".label-name")?.textContent ?? "").trim(),
          description: (row.querySelector(".label-description")?.textContent ?? "").trim(),
          level: Number(row.getAttribute("aria-level")),
        })),
    );
  }

  treeRow(label: string | RegExp): Locator {
    return this.page.locator(".sidebar .tree-explorer-viewlet-tree-view .monaco-list-row").filter({ hasText: label }).first();
  }

  /** What the view says where it has no rows. */
  async welcome(): Promise<string> {
    return (await this.page.locator(".sidebar .welcome-view-content").allInnerTexts()).join("\n").replaceAll("\u00a0", " ").trim();
  }

  async showView(): Promise<void> {
    await this.command("Palace: Focus on Recent Sessions View");
  }

  // Editors

  /** The names of the open editors, the active one first. */
  async tabs(): Promise<string[]> {
    const tabs = this.page.locator(".tabs-container .tab");
    return await tabs.evaluateAll((all) =>
      all
        .sort((one, other) => Number(other.classList.contains("active")) - Number(one.classList.contains("active")))
        // Newer ones show the file's ending in an element of its own, where it stays when the name is cut.
        .map((tab) => [".label-name", ".label-suffix"].map((part) => tab.querySelector(part)?.textContent ?? "").join("")),
    );
  }

  /** The lines of the active editor that are in sight. */
  async editorText(): Promise<string> {
    return await this.page.evaluate(() => {
      const root = document.querySelector(".editor-group-container.active .monaco-editor .view-lines");
      const lines = [...(root?.querySelectorAll<HTMLElement>(".view-line") ?? [])];
      lines.sort((one, other) => parseFloat(one.style.top) - parseFloat(other.style.top));
      return lines.map((line) => line.textContent.replaceAll("\u00a0", " ")).join("\n");
    });
  }

  /** The lines of the panel below the editors that are in sight, as of the output. */
  async panelText(): Promise<string> {
    return (await this.page.locator(".part.panel .view-lines .view-line").allInnerTexts()).join("\n").replaceAll("\u00a0", " ");
  }

  /** Where the cursor is, as the status bar tells: `Ln 4, Col 1`. */
  async cursor(): Promise<string> {
    return (await this.page.locator(`.statusbar-item[id="status.editor.selection"]`).innerText()).trim();
  }

  /** Opens a file of the project's top by its name; the files' search would need ripgrep, which is not installed. */
  async openFile(name: string): Promise<void> {
    await this.page.keyboard.press("Control+Shift+E");
    await this.page.locator(".explorer-folders-view .monaco-list-row").filter({ hasText: exactly(name) }).dblclick();
    await until(`${name} is open`, async () => (await this.tabs())[0] === name);
    await this.page.locator(".editor-group-container.active .monaco-editor .view-lines").click({ position: { x: 300, y: 5 } });
  }

  /** Puts the cursor at the start of a line of the active editor, and selects it whole on demand. */
  async goToLine(line: number, isSelected = false): Promise<void> {
    await this.page.keyboard.press("Control+G");
    await this.input.waitFor();
    await this.input.fill(`:${String(line)}`);
    await this.page.keyboard.press("Enter");
    // While the number is being typed, the status bar tells the line already; keys reach the editor after the input has gone only.
    await until("the input for the line is closed", async () => !(await this.isQuickInputOpen()));
    await until(`the cursor is in line ${String(line)}`, async () => (await this.cursor()).startsWith(`Ln ${String(line)},`));
    if (isSelected) await this.#selectLine();
  }

  /** Selects the cursor's line; again where what the editor still had to do has taken the selection away. */
  async #selectLine(): Promise<void> {
    let seenSelected = 0;
    await until("the line is selected", async () => {
      const isSelected = (await this.cursor()).includes("selected");
      seenSelected = isSelected ? seenSelected + 1 : 0;
      if (isSelected) return seenSelected > 2;
      await this.page.keyboard.press("Home");
      await this.page.keyboard.press("Shift+End");
      return false;
    }, { seen: () => this.cursor() });
  }

  async close(): Promise<void> {
    await this.page.close();
  }
}

function exactly(text: string): RegExp {
  return new RegExp(`^\\s*${text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&")}\\s*$`);
}
