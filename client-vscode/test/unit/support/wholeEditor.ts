/** What the whole extension asks of the editor when it is activated, beside what its parts ask; import it first. */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";

import type * as vscode from "vscode";

import { api, editor, EventEmitter, settled, Uri } from "./fakeVscode";

const MANIFEST = JSON.parse(readFileSync(path.resolve(import.meta.dirname, "../../../package.json"), "utf8")) as unknown;

/** What a test sees of it. */
export const whole = {
  /** Where memory, sockets and storage would be. */
  directory: "",
  /** What was disposed of, in order. */
  ends: [] as string[],
  /** Lines of the log. */
  told: [] as string[],
  errors: [] as string[],

  /** A new editor, in which no daemon runs and none is to be started. */
  open(): vscode.ExtensionContext {
    editor.reset();
    whole.directory = mkdtempSync(path.join(tmpdir(), "pal-ext-"));
    editor.settings.set("palace.dataDirectory", path.join(whole.directory, "data"));
    editor.settings.set("palace.startDaemon", false);
    process.env.XDG_RUNTIME_DIR = whole.directory;
    for (const list of [whole.ends, whole.told, whole.errors]) list.length = 0;
    const memory = { get: () => undefined, update: () => Promise.resolve(), keys: () => [] };
    return {
      subscriptions: [],
      globalStorageUri: Uri.file(path.join(whole.directory, "storage")),
      extensionPath: path.join(whole.directory, "extension"),
      extensionUri: Uri.file(path.join(whole.directory, "extension")),
      extension: { packageJSON: MANIFEST },
      globalState: memory,
      workspaceState: memory,
    } as unknown as vscode.ExtensionContext;
  },
  close(): void {
    rmSync(whole.directory, { recursive: true, force: true });
  },
};

const log = {
  ...Object.fromEntries(
    ["trace", "debug", "info", "warn"].map((name) => [
      name,
      (text: string) => {
        whole.told.push(text);
        if (whole.ends.includes("log")) whole.ends.push(`${name} after the end`);
      },
    ]),
  ),
  error: (text: string) => whole.errors.push(text),
  dispose: () => whole.ends.push("log"),
};

const changed = new EventEmitter<void>();
Object.assign(api.window, {
  createOutputChannel: () => log,
  createStatusBarItem: () => ({ show: () => undefined, hide: () => undefined, dispose: () => whole.ends.push("status item") }),
  createTreeView: () => ({ onDidChangeVisibility: changed.event, visible: false, dispose: () => whole.ends.push("view") }),
  onDidChangeActiveTextEditor: changed.event,
  onDidChangeWindowState: changed.event,
  withProgress: (_options: unknown, task: () => unknown) => Promise.resolve(task()),
});
Object.assign(api.workspace, { onDidCloseTextDocument: changed.event, onDidChangeWorkspaceFolders: changed.event, isTrusted: true });

/** Waits until it is so; the runner's time limit ends a wait that is in vain. */
export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await settled();
}
