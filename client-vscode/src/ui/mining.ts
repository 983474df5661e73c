/** Notifications of long mining: of a first run by itself, and of what a person asked for. */

import * as vscode from "vscode";

import type { ProgressValue } from "../core/protocol";
import { mineWords, progressWords } from "../core/miningText";
import { workWords } from "../core/statusText";
import type { Work } from "../core/statusWork";
import type { Parts } from "./parts";
import { complain, rising } from "./telling";

type Report = vscode.Progress<{ message?: string; increment?: number }>;

/**
 * Shows at most one notification at a time. Its Cancel pauses mining, as a person expects of it; to see it no more while
 * mining goes on, the editor's own button hides it.
 */
export class Mining implements vscode.Disposable {
  #isAsked = false;
  #shown: FirstRunNotice | undefined;

  constructor(private readonly parts: Parts) {}

  dispose(): void {
    this.#shown?.end();
  }

  /** Shows, changes or takes away the notification of a first run. */
  follow(verdict: "show" | "no", work: Work | undefined): void {
    if (verdict === "no") {
      this.#shown?.end();
      return;
    }
    if (this.#isAsked) return; // what the person asked for tells the same
    this.#shown ??= this.#show();
    if (work) this.#shown.tell(work);
  }

  #show(): FirstRunNotice {
    const notice = new FirstRunNotice(() => {
      if (this.#shown === notice) this.#shown = undefined;
    });
    void vscode.window.withProgress(
      { location: vscode.ProgressLocation.Notification, title: "Palace reads your sessions for the first time (Cancel pauses it)", cancellable: true },
      (report, token) => {
        token.onCancellationRequested(() => {
          notice.end();
          void this.#pause();
        });
        return notice.shown(report);
      },
    );
    return notice;
  }

  /** Mines everything that is watched, with progress, and says what came of it; asks first where mining is paused. */
  async mineNow(isPaused: boolean): Promise<void> {
    if (this.#isAsked) return;
    if (isPaused) {
      const text = "Palace: mining is paused, so nothing is read.";
      if ((await vscode.window.showInformationMessage(text, "Resume and Mine")) === undefined) return;
    }
    this.#isAsked = true;
    this.#shown?.end();
    const asked = new AbortController();
    try {
      if (isPaused) await this.parts.palace.request("palace/resume", {});
      const done = await vscode.window.withProgress(
        { location: vscode.ProgressLocation.Notification, title: "Palace: mining (Cancel pauses it)", cancellable: true },
        async (report, token) => {
          token.onCancellationRequested(() => {
            asked.abort();
            void this.#pause();
          });
          const onProgress = reporter(report);
          return await this.parts.palace.request("palace/mine", { wait: true }, { signal: asked.signal, onProgress });
        },
      );
      const { text, isBad } = mineWords(done);
      if (!isBad) void vscode.window.showInformationMessage(text);
      else if ((await vscode.window.showWarningMessage(text, "Show Status")) !== undefined) await vscode.commands.executeCommand("palace.showStatus");
    } catch (error) {
      complain(error);
    } finally {
      this.#isAsked = false;
    }
  }

  async #pause(): Promise<void> {
    try {
      await this.parts.palace.request("palace/pause", {});
      const text = "Palace: mining is paused. Recall finds what has been read so far.";
      if ((await vscode.window.showInformationMessage(text, "Resume")) !== undefined) await vscode.commands.executeCommand("palace.resume");
    } catch (error) {
      complain(error);
    }
  }
}

/** The notification of a first run; the editor shows it a moment after it was asked to. */
class FirstRunNotice {
  #rise: ReturnType<typeof rising> | undefined;
  #latest: Work | undefined;
  #resolve: () => void = () => undefined;
  readonly #over = new Promise<void>((resolve) => {
    this.#resolve = resolve;
  });

  constructor(private readonly onEnd: () => void) {}

  shown(report: Report): Promise<void> {
    this.#rise = rising(report);
    if (this.#latest) this.tell(this.#latest);
    return this.#over;
  }

  tell(work: Work): void {
    this.#latest = work;
    this.#rise?.(workWords(work), work.percent);
  }

  end(): void {
    this.#resolve();
    this.onEnd();
  }
}

/** Hears the daemon's progress. */
function reporter(report: Report): (value: ProgressValue) => void {
  const rise = rising(report);
  return (value) => {
    const message = progressWords(value);
    if (message !== "") rise(message, value.percentage ?? undefined);
  };
}
