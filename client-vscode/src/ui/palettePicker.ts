/** The palette itself: a list that searches as somebody types, and whose order is the daemon's. */

import * as vscode from "vscode";

import { agentIcon, agentName } from "../core/agents";
import { isCancelled, PalaceError } from "../core/errors";
import { type Asked, type Filters, readInput, type Scope, spanName, SPANS, toAsk } from "../core/filters";
import { type Action, emptyRows, errorRow, hintRow, type Indexed, type NoticeRow, placeholder, stateRow } from "../core/notices";
import type { Project } from "../core/project";
import type { RecallResult } from "../core/protocol";
import { type HitRow, hitRows, lookedAt, type SeparatorRow, turns } from "../core/rows";
import { shortened } from "../core/snippet";
import { beginning, plainLabel } from "../core/wording";
import { Searcher } from "../core/searcher";
import { copyExchange, openTranscript, showExchange } from "./exchanges";
import type { Memory } from "./palette";
import { buttonsFor, chooseAction, insertExchange, quoteExchange, ROW_BUTTONS, type RowAction, showScores } from "./paletteActions";
import type { Parts } from "./parts";

/** More projects than anybody has. */
const PROJECTS_MAX = 1_000;
/** Of a longer text the daemon would read no more than this for a question, either. */
const QUESTION_CHARS_MAX = 20_000;
const NO_FOLDER = "in:project: no folder is open in this window, so there is no project";
/** What of a name fits into a title beside the rest. */
const LIKE_CHARS = 32;

/** A text that is asked in the place of what is typed: an exchange that others should be like, or a selection. */
export interface Like {
  readonly text: string;
  readonly name: string;
  /** Its own row is left out: everything is most like itself. */
  readonly exchangeId: string | undefined;
  /** Those that were typed when it began: they go on, and stand in the title. */
  readonly filters: Filters;
}

/** What the palette begins with. */
export interface Opening {
  readonly value: string;
  readonly scope: Scope;
  readonly project: Project | undefined;
  readonly like?: Like;
}

type Row = HitRow | NoticeRow | SeparatorRow;
interface Item extends vscode.QuickPickItem {
  readonly row: Row;
}
interface Question {
  readonly asked: Asked;
  readonly hints: readonly string[];
  readonly like: Like | undefined;
}

export class Palette implements vscode.Disposable {
  readonly #parts: Parts;
  readonly #memory: Memory;
  readonly #project: Project | undefined;
  /** The editor as it was before: what is inserted goes there. */
  readonly #editor = vscode.window.activeTextEditor;
  readonly #searcher: Searcher<Question, RecallResult>;
  readonly #listening: { dispose(): void };
  #scope: Scope;
  #value: string;
  #like: Like | undefined;
  #indexed: Indexed | undefined;
  #rows: readonly Row[] = [];
  /** How much the newest answer looked at. */
  #looked = "";
  #picker: vscode.QuickPick<Item> | undefined;
  /** The drawer of the row that stays chosen when the same list is shown again. */
  #active: string | undefined;
  /** The row that is chosen by itself. */
  #top: Item | undefined;
  /** Enter came before the answer to what is typed: its first row is meant. */
  #isEnterDue = false;
  #isOrderKept = true;
  #buttons = new Map<vscode.QuickInputButton, () => void>();
  #buttonsShown = "";

  constructor(parts: Parts, memory: Memory, opening: Opening) {
    this.#parts = parts;
    this.#memory = memory;
    this.#project = opening.project;
    this.#scope = opening.scope;
    this.#value = opening.value;
    this.#like = opening.like;
    this.#searcher = new Searcher(
      (question, signal) => parts.palace.request("palace/recall", question.asked.params, { signal }),
      {
        onAnswer: (result, question) => {
          this.#answered(result, question);
        },
        onError: (error) => {
          this.#failed(error);
        },
        onBusy: (isBusy) => {
          if (this.#picker) this.#picker.busy = isBusy;
        },
      },
      () => parts.settings().recall.delayMs,
    );
    this.#listening = parts.palace.onDidChangeState(() => {
      this.#stateChanged();
    });
  }

  /** Shows it, and searches for what it begins with: with nothing typed, the newest of the scope. */
  show(): void {
    const notReady = stateRow(this.#parts.palace.state);
    if (notReady) this.#rows = [notReady];
    this.#mount();
    this.#searchNow();
    void this.#readIndexed();
  }

  dispose(): void {
    this.#searcher.dispose();
    this.#listening.dispose();
    this.#unmount();
  }

  // ------------------------------------------------------------------------------------------------ the list

  /** A new list each time: one that was hidden by another list does not come back the same in every version. */
  #mount(): void {
    const picker = vscode.window.createQuickPick<Item>();
    this.#picker = picker;
    this.#buttonsShown = "";
    try {
      // Not declared, yet every version since 1.49 has it: without it the editor sorts by how well labels match.
      (picker as unknown as { sortByLabel: boolean }).sortByLabel = false;
    } catch {
      this.#isOrderKept = false;
    }
    picker.matchOnDescription = picker.matchOnDetail = true; // marks what is typed; nothing is hidden, see alwaysShow
    picker.value = this.#like ? "" : this.#value;
    picker.onDidChangeValue((value) => {
      this.#typed(value);
    });
    picker.onDidAccept(() => {
      this.#enter(picker.activeItems[0] ?? picker.selectedItems[0]);
    });
    picker.onDidTriggerButton((button) => this.#buttons.get(button)?.());
    picker.onDidTriggerItemButton(({ item, button }) => void this.#pressed(item, button));
    picker.onDidHide(() => {
      if (this.#picker === picker) this.dispose();
    });
    this.#refreshFrame();
    this.#fill();
    picker.busy = this.#searcher.isBusy;
    picker.show();
    this.#tellOpen(true);
  }

  #unmount(): void {
    this.#isEnterDue = false;
    this.#keepActive();
    const picker = this.#picker;
    this.#picker = undefined; // first: hiding is told, and must not end the palette
    picker?.dispose();
    if (picker) this.#tellOpen(false);
  }

  /**
   * Does something that takes the list's place, and brings the list back as it was, with `row` chosen if it is given.
   *
   * Whether a person left that by Escape, or by opening another list such as Ctrl+P's, the editor does not tell: after
   * either the list comes back, and Escape, which is meant more often, is what the placeholders promise.
   */
  async #aside(run: () => PromiseLike<unknown>, row?: HitRow): Promise<void> {
    this.#unmount();
    if (row) this.#active = row.hit.drawerId;
    try {
      await run();
    } finally {
      if (!this.#searcher.isDisposed && !this.#picker) this.#mount();
    }
  }

  #setRows(rows: readonly Row[]): void {
    this.#rows = rows;
    this.#fill();
  }

  #fill(): void {
    if (!this.#picker) return;
    const items = this.#rows.map((row) => this.#item(row));
    this.#picker.items = items;
    const hits = items.filter((one) => one.row.kind === "hit");
    const active = hits.find((one) => one.row.kind === "hit" && one.row.hit.drawerId === this.#active) ?? hits[0];
    if (active) this.#picker.activeItems = [active]; // notices above it are to be read, not to be entered
    this.#top = active ?? items[0];
    this.#active = undefined;
  }

  /** For the key that opens a row's actions. */
  #tellOpen(isOpen: boolean): void {
    void vscode.commands.executeCommand("setContext", "palace.isRecallOpen", isOpen);
  }

  #keepActive(): void {
    const row = this.#picker?.activeItems[0]?.row;
    if (row?.kind === "hit") this.#active = row.hit.drawerId;
  }

  #item(row: Row): Item {
    if (row.kind === "separator") return { row, label: row.label, kind: vscode.QuickPickItemKind.Separator };
    const label = this.#isOrderKept ? row.label : unmatched(row.label);
    const common = { row, label, detail: row.detail, iconPath: new vscode.ThemeIcon(row.icon), alwaysShow: true };
    return row.kind === "notice" ? common : { ...common, description: row.description, buttons: buttonsFor(row) };
  }

  /** Title, placeholder and buttons: what the scope is, and what changes it. */
  #refreshFrame(): void {
    if (!this.#picker) return;
    const { where } = this.#question().asked;
    const heading = this.#like ? `More like “${shortened(this.#like.name, LIKE_CHARS)}” ${where}` : `Recall ${where}`;
    this.#picker.title = [heading, this.#looked].filter(Boolean).join(" · ");
    this.#picker.placeholder = this.#like ? "Type to search for something else" : placeholder(this.#indexed);
    const shown = JSON.stringify([this.#scope, this.#like !== undefined]);
    if (shown === this.#buttonsShown) return; // else the one under the pointer would be made anew at every key
    this.#buttonsShown = shown;
    this.#buttons = this.#frameButtons();
    this.#picker.buttons = [...this.#buttons.keys()];
  }

  #frameButtons(): Map<vscode.QuickInputButton, () => void> {
    const buttons = new Map<vscode.QuickInputButton, () => void>();
    const add = (icon: string, tooltip: string, run: () => void): void => {
      buttons.set({ iconPath: new vscode.ThemeIcon(icon), tooltip }, run);
    };
    if (this.#like) {
      buttons.set(vscode.QuickInputButtons.Back, () => {
        this.#endLike(this.#memory.value);
        if (this.#picker) this.#picker.value = this.#value;
        this.#searchNow();
      });
    }
    const { place, agent, span } = this.#scope;
    if (this.#project) {
      const [icon, tooltip] = place === "project" ? ["folder-active", "Search all projects"] : ["globe", `Search only in ${this.#project.name}`];
      add(icon, tooltip, () => {
        this.#rescope({ place: place === "project" ? "all" : "project" });
      });
    }
    add(agent ? agentIcon(agent) : "hubot", `Agent: ${agent ? agentName(agent) : "all"}…`, () => void this.#aside(() => this.#chooseAgent()));
    add(span === "any" ? "calendar" : "clock", `Time: ${spanName(span).toLowerCase()}…`, () => void this.#aside(() => this.#chooseSpan()));
    return buttons;
  }

  // ------------------------------------------------------------------------------------------------ searching

  #question(): Question {
    const around = { project: this.#project, now: new Date(), limit: this.#parts.settings().recall.limit };
    const like = this.#like;
    if (like) {
      const input = { query: beginning(like.text, QUESTION_CHARS_MAX), filters: like.filters, hints: [] };
      return { asked: toAsk(input, this.#scope, around), hints: [], like };
    }
    const input = readInput(this.#value, around.now, this.#agents());
    const hints = input.filters.place === "project" && !this.#project ? [...input.hints, NO_FOLDER] : input.hints;
    return { asked: toAsk(input, this.#scope, around), hints, like };
  }

  #typed(value: string): void {
    if (value === (this.#like ? "" : this.#value)) return; // the editor tells what was set by program, too
    this.#isEnterDue = false;
    this.#endLike(value);
    this.#memory.value = value;
    this.#refreshFrame();
    this.#searcher.later(this.#question());
  }

  #endLike(value: string): void {
    if (this.#like) this.#looked = "";
    this.#like = undefined;
    this.#value = value;
  }

  /** Searches without a pause, for what was not typed. */
  #searchNow(): void {
    this.#refreshFrame();
    this.#searcher.now(this.#question());
  }

  #rescope(changes: Partial<Scope>): void {
    this.#scope = this.#memory.scope = { ...this.#scope, ...changes };
    this.#searchNow();
  }

  #answered(result: RecallResult, question: Question): void {
    const { asked, like } = question;
    this.#looked = like ? "" : lookedAt(result, asked.params.query); // of a whole text, words stand nearly everywhere
    this.#refreshFrame();
    const hints = question.hints.map(hintRow);
    const hits = like?.exchangeId === undefined ? result.hits : result.hits.filter((one) => one.exchangeId !== like.exchangeId);
    const shown = { query: asked.params.query, now: new Date(), isOneProject: asked.project !== undefined };
    this.#setRows([...hints, ...(hits.length ? hitRows({ ...result, hits }, shown) : emptyRows(result, asked, this.#indexed))]);
    const isDue = this.#isEnterDue && this.#top?.row.kind === "hit";
    this.#isEnterDue = false;
    if (isDue) void this.#accepted(this.#top);
  }

  /** The list stays as it was, below what went wrong. */
  #failed(error: unknown): void {
    if (isCancelled(error)) return;
    this.#parts.log.warn(`recall failed: ${error instanceof PalaceError ? error.kind : "internal"}`);
    this.#isEnterDue = false;
    this.#keepActive();
    this.#setRows([stateRow(this.#parts.palace.state) ?? errorRow(error), ...this.#found()]);
  }

  #stateChanged(): void {
    const notReady = stateRow(this.#parts.palace.state);
    if (notReady) {
      this.#isEnterDue = false;
      this.#keepActive();
      this.#setRows([notReady, ...this.#found()]);
    } else {
      this.#searchNow();
      void this.#readIndexed();
    }
  }

  #found(): Row[] {
    return this.#rows.filter((one) => one.kind !== "notice");
  }

  async #readIndexed(): Promise<void> {
    try {
      const { projects } = await this.#parts.palace.request("palace/projects", { limit: PROJECTS_MAX });
      this.#indexed = { projects, exchanges: projects.reduce((sum, one) => sum + one.exchanges, 0) };
      this.#refreshFrame();
    } catch {
      // The placeholder stays general; the search itself tells what is wrong.
    }
  }

  #agents(): string[] {
    return [...new Set((this.#indexed?.projects ?? []).flatMap((one) => one.agents))].sort();
  }

  // ------------------------------------------------------------------------------------------------ what a person does

  async #chooseAgent(): Promise<void> {
    const items = ["", ...this.#agents()].map((agent) => ({
      label: agent ? plainLabel(agentName(agent)) : "All agents",
      description: agent ? plainLabel(`agent:${agent}`) : "",
      iconPath: new vscode.ThemeIcon(agent ? agentIcon(agent) : "hubot"),
      agent,
    }));
    const chosen = await vscode.window.showQuickPick(items, { title: "Search what was said with", placeHolder: "An agent" });
    if (chosen) this.#rescope({ agent: chosen.agent });
  }

  async #chooseSpan(): Promise<void> {
    const items = SPANS.map(({ span, name }) => ({ label: name, span }));
    const placeHolder = "In the question, since: and until: take any date";
    const chosen = await vscode.window.showQuickPick(items, { title: "Search what was said", placeHolder });
    if (chosen) this.#rescope({ span: chosen.span });
  }

  /**
   * Enter on a row. Who typed on and presses Enter before the answer is there means what is typed, not the first row of
   * the list before: it waits. A row that was chosen with the arrows is meant as it is.
   */
  #enter(item: Item | undefined): void {
    const isMeant = item?.row.kind === "hit" ? item !== this.#top : item?.row.kind === "notice" && item.row.action !== undefined;
    this.#isEnterDue = this.#searcher.isBusy && !isMeant;
    if (!this.#isEnterDue) void this.#accepted(item);
  }

  async #accepted(item: Item | undefined): Promise<void> {
    if (item?.row.kind === "hit") {
      this.dispose();
      await showExchange(this.#parts, item.row.hit.exchangeId);
    } else if (item?.row.kind === "notice" && item.row.action) {
      await this.#act(item.row.action);
    }
  }

  async #act(action: Action): Promise<void> {
    switch (action.kind) {
      case "command":
        this.dispose();
        await vscode.commands.executeCommand(action.command);
        return;
      case "widen":
        if (this.#like) this.#like = { ...this.#like, filters: {} };
        this.#setValue(readInput(this.#value, new Date()).query);
        this.#rescope({ place: "all", agent: "", span: "any" });
        return;
      case "project": {
        const { query } = readInput(this.#value, new Date());
        if (this.#like) this.#like = { ...this.#like, filters: { project: action.project } };
        else this.#setValue(`project:${/\s/.test(action.project) ? `"${action.project}"` : action.project} ${query}`);
        this.#searchNow();
        return;
      }
      case "retry":
        this.#searchNow();
    }
  }

  #setValue(value: string): void {
    this.#value = this.#memory.value = value;
    if (this.#picker && !this.#like) this.#picker.value = value;
  }

  async #pressed(item: Item, button: vscode.QuickInputButton): Promise<void> {
    if (item.row.kind !== "hit") return;
    const { row } = item;
    if (button === ROW_BUTTONS.more) await this.#aside(() => this.#more(row), row);
    else if (button === ROW_BUTTONS.transcript) await this.#do("transcript", row);
    else if (button === ROW_BUTTONS.insert) await this.#do("insert", row);
    else if (button === ROW_BUTTONS.quote) await this.#do("quote", row);
  }

  /** Offers what can be done with the row that is chosen. */
  async offerActions(): Promise<void> {
    const row = this.#picker?.activeItems[0]?.row;
    if (row?.kind === "hit") await this.#aside(() => this.#more(row), row);
  }

  async #more(row: HitRow): Promise<void> {
    const action = await chooseAction(row);
    if (action) await this.#do(action, row);
  }

  async #do(action: RowAction, row: HitRow): Promise<void> {
    const { exchangeId } = row.hit;
    switch (action) {
      case "transcript":
        this.dispose();
        await openTranscript(this.#parts, exchangeId);
        return;
      case "insert":
        this.dispose();
        await insertExchange(this.#parts, exchangeId, this.#editor);
        return;
      case "quote":
        this.dispose();
        await quoteExchange(this.#parts, exchangeId);
        return;
      case "copy":
        await copyExchange(this.#parts, exchangeId);
        return;
      case "like":
        this.#searchLike(row);
        return;
      case "scores":
        await showScores(row);
        return;
      case "forget":
        await vscode.commands.executeCommand("palace.forgetItem", { exchangeId });
        this.#searchNow();
    }
  }

  #searchLike(row: HitRow): void {
    const { asked, reply } = turns(row.hit.text);
    this.#looked = ""; // it told of another question
    this.#like = { text: `${asked}\n\n${reply}`, name: row.label, exchangeId: row.hit.exchangeId, filters: this.#like?.filters ?? readInput(this.#value, new Date()).filters };
    this.#searchNow();
  }
}

/** A label that looks the same and that nothing typed matches, so that an editor that sorts by matches keeps the order. */
function unmatched(label: string): string {
  return label.replace(/(?<=[\p{L}\p{N}])(?=[\p{L}\p{N}])/gu, "\u2060");
}
