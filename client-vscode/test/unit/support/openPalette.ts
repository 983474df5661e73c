/** The palette over a fake daemon, with what a person does to it. Tests that import it start each with a new one. */

import assert from "node:assert/strict";
import { beforeEach, mock } from "node:test";

import { api, editor, Selection, settled, Uri } from "./fakeVscode";
import type { WireHit } from "../../../src/core/protocol";
import { registerPalette } from "../../../src/ui/palette";
import { answer, hit } from "./answers";
import { FakePalace, type FakeRequest, partsWith } from "./fakePalace";
import { exchangeOf, projectOf } from "./told";

mock.timers.enable({ apis: ["setTimeout"] });

export let palace: FakePalace;
export let registered: { dispose(): unknown } | undefined;

beforeEach(() => {
  registered?.dispose();
  editor.reset();
  palace = new FakePalace();
  palace.answers.set("palace/projects", () => ({ projects: [projectOf({ agents: ["claude-code", "codex"] }), projectOf({ path: "/home/kim/tidepool" })] }));
  palace.answers.set("palace/get", (params) => exchangeOf({ exchangeId: params.id as string }));
  registered = registerPalette(partsWith(palace, { recall: { delayMs: 120 } }));
});

export const named = (text: string, changes: Partial<WireHit> = {}): WireHit => hit({ exchangeId: text.replace(/\W/g, ""), text: `> ${text}\n\nBecause.`, ...changes });
export const recalls = (): FakeRequest[] => palace.asked("palace/recall");
export const lastRecall = (): FakeRequest => {
  const request = recalls().at(-1);
  assert(request, "nothing was asked");
  return request;
};

export async function open(command = "palace.recall", argument?: unknown): Promise<void> {
  await api.commands.executeCommand(command, argument);
  await settled();
}

/** Addresses of the exchanges that were opened. */
export const addresses = (): string[] => editor.shown.map((one) => (one.target as { uri: Uri }).uri.query);

/** Presses the last button of a row and chooses what it offers. */
export async function more(label: string, action: string): Promise<void> {
  editor.answers.push(action);
  editor.quickPick.pressOn(label, "More actions…");
  await settled();
}

/** Opens the palette and answers the first search with `hits`. */
export async function opened(...hits: WireHit[]): Promise<void> {
  await open();
  lastRecall().answer(answer(hits));
  await settled();
}

export async function typed(value: string): Promise<void> {
  editor.quickPick.type(value);
  mock.timers.tick(120);
  await settled();
}

/** An editor that is in front; `edit` changes its document unless it is read-only. */
export function editorInFront(text: string, given: { isReadOnly?: boolean; selection?: Selection; scheme?: string } = {}) {
  const selection = given.selection ?? new Selection(0, 0, 0, 0);
  const document = {
    uri: Uri.from({ scheme: given.scheme ?? "file", path: "/home/kim/atlas/main.py" }),
    isClosed: false,
    version: 1,
    getText: (range: Selection) => (range.isEmpty ? "" : text),
    getWordRangeAtPosition: () => undefined,
    lineAt: () => ({ text }),
  };
  const inserted: string[] = [];
  const fake = {
    document,
    selection,
    selections: [selection],
    inserted,
    edit: (run: (builder: { replace(selection: unknown, text: string): void }) => void) => {
      if (!given.isReadOnly) {
        run({ replace: (_selection, words) => inserted.push(words) });
        document.version += 1;
      }
      return Promise.resolve(true);
    },
  };
  editor.activeTextEditor = fake;
  return fake;
}
