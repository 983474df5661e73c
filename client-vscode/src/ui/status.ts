/** The status bar, the whole status, and mining on demand. */

import * as vscode from "vscode";

import type { State } from "../core/palace";
import type { StatusResult } from "../core/protocol";
import { barWords, type BarWords } from "../core/statusText";
import { FirstRun, WorkMeter, type Work } from "../core/statusWork";
import { Mining } from "./mining";
import type { Parts } from "./parts";
import { registerStatusReport } from "./statusReport";
import { complain } from "./telling";

/** Left of what belongs to the file that is edited, among what concerns the whole window. */
const PRIORITY = 10;
const BACKGROUNDS: Readonly<Record<BarWords["severity"], string | undefined>> = {
  fine: undefined,
  attention: "statusBarItem.warningBackground",
  broken: "statusBarItem.errorBackground",
};

export function registerStatus(parts: Parts): vscode.Disposable {
  const mining = new Mining(parts);
  const bar = new StatusBar(parts, mining);
  const setPaused = (method: "palace/pause" | "palace/resume") => async (): Promise<void> => {
    try {
      const { isPaused } = await parts.palace.request(method, {});
      bar.tellPaused(isPaused);
      void vscode.window.showInformationMessage(
        isPaused ? "Palace: mining is paused until you resume it or the daemon is started anew. Recall goes on." : "Palace: mining goes on.",
      );
    } catch (error) {
      complain(error);
    }
  };
  return vscode.Disposable.from(
    bar,
    mining,
    registerStatusReport(parts, () => bar.status),
    parts.command("palace.mineNow", () => mining.mineNow(bar.status?.embedding.isPaused ?? false)),
    parts.command("palace.pause", setPaused("palace/pause")),
    parts.command("palace.resume", setPaused("palace/resume")),
  );
}

/** Shows what the daemon tells by itself; asks once when it is reached, and never again. */
class StatusBar implements vscode.Disposable {
  status: StatusResult | undefined;
  readonly #item: vscode.StatusBarItem;
  readonly #listening: vscode.Disposable;
  #meter = new WorkMeter();
  #firstRun = new FirstRun();
  #work: Work | undefined;
  #isPaused: boolean | undefined;
  #dueTimer: NodeJS.Timeout | undefined;

  constructor(
    private readonly parts: Parts,
    private readonly mining: Mining,
  ) {
    const { palace } = parts;
    this.#item = vscode.window.createStatusBarItem("palace.status", vscode.StatusBarAlignment.Right, PRIORITY);
    this.#item.name = "Palace";
    this.#item.command = "palace.showStatus";
    this.#listening = vscode.Disposable.from(
      palace.on("palace/didChangeStatus", (status) => {
        this.#take(status);
      }),
      palace.onDidChangeState((state) => {
        this.#onState(state);
      }),
      vscode.workspace.onDidChangeConfiguration((change) => {
        if (change.affectsConfiguration("palace.statusBar")) this.#show();
      }),
    );
    this.#onState(palace.state);
  }

  dispose(): void {
    clearTimeout(this.#dueTimer);
    this.#listening.dispose();
    this.#item.dispose();
  }

  /** Tells the editor which of the commands Pause and Resume makes sense. */
  tellPaused(isPaused: boolean): void {
    if (isPaused === this.#isPaused) return;
    this.#isPaused = isPaused;
    void vscode.commands.executeCommand("setContext", "palace.isPaused", isPaused);
  }

  #onState(state: State): void {
    if (state.kind === "ready") {
      void this.#ask();
    } else {
      this.status = this.#work = undefined;
      this.#meter = new WorkMeter();
      this.#firstRun = new FirstRun();
      clearTimeout(this.#dueTimer);
      this.mining.follow("no", undefined);
    }
    this.#show();
  }

  async #ask(): Promise<void> {
    try {
      this.#take(await this.parts.palace.request("palace/status", {}));
    } catch {
      // the daemon went away again: the state tells
    }
  }

  #take(status: StatusResult): void {
    if (this.parts.palace.state.kind !== "ready") return;
    const nowMs = performance.now();
    this.status = status;
    this.#work = this.#meter.update(status, nowMs);
    this.tellPaused(status.embedding.isPaused);
    this.#follow(nowMs);
    this.#show();
  }

  #follow(nowMs: number): void {
    clearTimeout(this.#dueTimer);
    if (!this.status) return;
    const verdict = this.#firstRun.update(this.status, nowMs);
    this.mining.follow(verdict === "show" ? "show" : "no", this.#work);
    if (verdict !== "wait") return;
    this.#dueTimer = setTimeout(() => {
      this.#follow(performance.now()); // nothing may have been told since, and it is long all the same
    }, this.#firstRun.dueInMs(nowMs));
  }

  #show(): void {
    if (!this.parts.settings().statusBar) {
      this.#item.hide();
      return;
    }
    const { text, tooltip, severity, spoken } = barWords(this.parts.palace.state, this.status, this.#work, new Date());
    this.#item.text = text;
    this.#item.accessibilityInformation = { label: spoken, role: "button" };
    const colour = BACKGROUNDS[severity];
    this.#item.backgroundColor = colour === undefined ? undefined : new vscode.ThemeColor(colour);
    const markdown = new vscode.MarkdownString(tooltip, true);
    markdown.isTrusted = false;
    this.#item.tooltip = markdown;
    this.#item.show();
  }
}
