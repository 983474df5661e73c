/** Recall: the commands, what is remembered of the last search, and what the search is about. */

import * as vscode from "vscode";

import { type Place, readInput, type Scope } from "../core/filters";
import { askedLine } from "../core/rows";
import { type Opening, Palette } from "./palettePicker";
import type { Parts } from "./parts";
import { projectInFront } from "./windowProjects";

/** A longer selection is asked as it is, and not put into the input, which has one line. */
const INPUT_CHARS_MAX = 200;
const TITLE_CHARS = 40;

/** What the palette remembers while the window lives; nothing of it is written to disk. */
export interface Memory {
  value: string;
  scope: Scope | undefined;
}

/** Registers Recall, Recall Selection and Recall in This Project. */
export function registerPalette(parts: Parts): vscode.Disposable {
  const memory: Memory = { value: "", scope: undefined };
  let palette: Palette | undefined;
  const scopeWith = (changes: Partial<Scope>): Scope => {
    return { ...(memory.scope ?? { place: parts.settings().recall.scope, agent: "", span: "any" }), ...changes };
  };
  const open = (opening: Partial<Opening>): void => {
    palette?.dispose();
    palette = new Palette(parts, memory, { value: memory.value, scope: scopeWith({}), project: projectInFront(), ...opening });
    palette.show();
  };
  return vscode.Disposable.from(
    parts.command("palace.recall", (argument: unknown) => {
      const { query, scope, agent } = readArgument(argument);
      open({
        ...(query === undefined ? {} : { value: query }),
        scope: scopeWith({ ...(scope === undefined ? {} : { place: scope }), ...(agent === undefined ? {} : { agent }) }),
      });
    }),
    parts.command("palace.recallInProject", () => {
      if (projectInFront()) open({ scope: scopeWith({ place: "project" }) });
      else void vscode.window.showInformationMessage("No folder is open, so there is no project to search in. Palace: Recall searches everything.");
    }),
    parts.command("palace.recallSelection", () => {
      const text = selectedText(vscode.window.activeTextEditor);
      if (text) open(asOpening(text));
      else void vscode.window.showInformationMessage("Nothing is selected. Select what you want to search for in an editor.");
    }),
    parts.command("palace.recallActions", () => palette?.offerActions()),
    new vscode.Disposable(() => {
      palette?.dispose();
    }),
  );
}

/** A short line goes into the input, where it can be changed; code and whole paragraphs are asked as they are. */
function asOpening(text: string): Partial<Opening> {
  const isLine = text.length <= INPUT_CHARS_MAX && !/[\r\n]/.test(text);
  if (isLine && readInput(text, new Date()).query === text) return { value: text };
  return { value: "", like: { text, name: askedLine(text, TITLE_CHARS) || "the selection", exchangeId: undefined, filters: {} } };
}

/** What is selected, with several cursors each text once; where nothing is, the word at the cursor, else its line. */
function selectedText(editor: vscode.TextEditor | undefined): string {
  if (!editor) return "";
  const { document, selections, selection } = editor;
  const selected = new Set(selections.map((one) => document.getText(one).trim()).filter(Boolean));
  if (selected.size > 0) return [...selected].join("\n");
  const word = document.getWordRangeAtPosition(selection.active);
  return (word ? document.getText(word) : document.lineAt(selection.active.line).text).trim();
}

interface Argument {
  readonly query?: string | undefined;
  readonly scope?: Place | undefined;
  readonly agent?: string | undefined;
}

/** Reads what another extension, a keybinding or a link gave; what is of another kind is left alone. */
function readArgument(argument: unknown): Argument {
  if (typeof argument !== "object" || argument === null) return {};
  const given = argument as Record<string, unknown>;
  return {
    query: typeof given.query === "string" ? given.query : undefined,
    scope: given.scope === "all" || given.scope === "project" ? given.scope : undefined,
    agent: typeof given.agent === "string" ? given.agent : undefined,
  };
}
