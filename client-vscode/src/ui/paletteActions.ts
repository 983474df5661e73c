/** What the buttons on a row of the palette do with its exchange. */

import * as vscode from "vscode";

import { inWords } from "../core/errors";
import { quoteForChat, saidText } from "../core/quoting";
import { type HitRow, isNote, scoreParts } from "../core/rows";
import { plainLabel } from "../core/wording";
import { read } from "./exchanges";
import type { Parts } from "./parts";

const TOLD_MS = 4_000;
const CHAT_COMMAND = "workbench.action.chat.open";
const COPY_INSTEAD = "Copy Instead";
const BACK = "Escape goes back to the results";

const button = (icon: string, tooltip: string): vscode.QuickInputButton => ({ iconPath: new vscode.ThemeIcon(icon), tooltip });

/** In the order in which they stand on a row; few, since they take their room from its text. */
export const ROW_BUTTONS = {
  transcript: button("file-code", "Open the transcript at this line"),
  insert: button("insert", "Insert the reply at the cursor"),
  quote: button("quote", "Quote for a chat"),
  more: button("ellipsis", "More actions…"),
} as const;

export type RowAction = "copy" | "forget" | "insert" | "like" | "quote" | "scores" | "transcript";

/** The buttons of a row; a note has no transcript. */
export function buttonsFor(row: HitRow): vscode.QuickInputButton[] {
  return Object.values(ROW_BUTTONS).filter((one) => one !== ROW_BUTTONS.transcript || !isNote(row.hit.agent));
}

/**
 * Asks what to do with a row; undefined where the person went back. It offers what the buttons do, too, which the keyboard
 * does not reach, and forgetting last, away from the others that change nothing.
 */
export async function chooseAction(row: HitRow): Promise<RowAction | undefined> {
  const item = (action: RowAction, icon: string, label: string) => ({ action, label, iconPath: new vscode.ThemeIcon(icon) });
  const isOfNote = isNote(row.hit.agent);
  const said = isOfNote ? "note" : "reply";
  const items = [
    item("copy", "copy", `Copy the ${said}`),
    item("insert", "insert", `Insert the ${said} at the cursor`),
    item("quote", "quote", "Quote for a chat"),
    ...(isOfNote ? [] : [item("transcript", "file-code", "Open the transcript at this line")]),
    item("like", "references", "More like this"),
    item("scores", "graph", "Why it stands here"),
    item("forget", "trash", "Forget…"),
  ];
  const chosen = await vscode.window.showQuickPick(items, { title: row.label, placeHolder: BACK });
  return chosen?.action;
}

/** Puts the reply where the cursor is in `into`, the editor that was active before the palette; says so where it cannot. */
export async function insertExchange(parts: Parts, exchangeId: string, into: vscode.TextEditor | undefined): Promise<void> {
  const told = await read(parts, exchangeId);
  if (!told) return;
  const text = saidText(told);
  const reason = into ? await insertText(into, text) : "No editor was open.";
  if (!reason) return;
  const chosen = await vscode.window.showWarningMessage(`${reason} Nothing was inserted.`, COPY_INSTEAD);
  if (chosen === COPY_INSTEAD) await vscode.env.clipboard.writeText(text);
}

/** Returns why it was not inserted, or nothing where it was. */
async function insertText(into: vscode.TextEditor, text: string): Promise<string> {
  const { document } = into;
  if (document.isClosed) return "The editor was closed meanwhile.";
  if (vscode.workspace.fs.isWritableFileSystem(document.uri.scheme) === false) return "The file is read-only.";
  const { version } = document;
  try {
    const isDone = await into.edit((edit) => {
      for (const selection of into.selections) edit.replace(selection, text);
    });
    // An editor that is read-only says that it is done, and changes nothing.
    return isDone && document.version !== version ? "" : "The file is read-only or was changed meanwhile.";
  } catch (error) {
    return inWords(error);
  }
}

/** Puts a quotation with its provenance into the clipboard, and into the chat's input where this editor has a chat. */
export async function quoteExchange(parts: Parts, exchangeId: string): Promise<void> {
  const told = await read(parts, exchangeId);
  if (!told) return;
  const quotation = quoteForChat(told);
  await vscode.env.clipboard.writeText(quotation);
  if ((await vscode.commands.getCommands(true)).includes(CHAT_COMMAND)) {
    try {
      await vscode.commands.executeCommand(CHAT_COMMAND, { query: quotation, isPartialQuery: true }); // written, not sent
      // The command is there and does nothing where no chat is set up, and does not tell.
      vscode.window.setStatusBarMessage("Palace: the quotation is copied, and in the chat's input where a chat is set up", TOLD_MS);
      return;
    } catch {
      // A chat that is there but switched off: the clipboard has it.
    }
  }
  vscode.window.setStatusBarMessage("Palace: the quotation is copied; paste it into a chat", TOLD_MS);
}

/** Shows what the score of a hit is made of, until it is closed. */
export async function showScores(row: HitRow): Promise<void> {
  const { hit } = row;
  const lines: vscode.QuickPickItem[] = scoreParts(hit).map((part) => ({
    label: part.value.toFixed(3),
    description: part.name,
    detail: part.meaning,
  }));
  const words = hit.matchedTerms.length ? hit.matchedTerms.join(", ") : "none";
  lines.push({ label: "", kind: vscode.QuickPickItemKind.Separator });
  lines.push({ label: hit.score.toFixed(3), description: "the score: the sum of the parts", detail: plainLabel(`Words found: ${words}`) });
  await vscode.window.showQuickPick(lines, { title: `Why “${row.label}” stands here`, placeHolder: BACK });
}
