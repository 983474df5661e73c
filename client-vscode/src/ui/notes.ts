/** Notes: what a person asks Palace to remember, and to forget. */

import * as vscode from "vscode";

import { tagRows, tagsOf } from "../core/noteTags";
import type { RememberParams, RememberResult } from "../core/protocol";
import { count, cut, firstLine, lastName, plainLabel, plainMessage, withOffset } from "../core/wording";
import { forget, forgetItem } from "./forget";
import type { Parts } from "./parts";
import { complain } from "./telling";
import { windowProjects } from "./windowProjects";

/** Of these, the newest, the tags are offered. */
const NOTES_LOOKED_AT = 500;

interface TagItem extends vscode.QuickPickItem {
  readonly tag: string;
}

export function registerNotes(parts: Parts): vscode.Disposable {
  return vscode.Disposable.from(
    parts.command("palace.rememberSelection", () => remember(parts)),
    parts.command("palace.forget", () => forget(parts)),
    parts.command("palace.forgetItem", (given: unknown) => forgetItem(parts, given)),
  );
}

async function remember(parts: Parts): Promise<void> {
  try {
    const text = selectedText() ?? (await askText());
    if (!text) return;
    const project = await askProject(text);
    if (project === undefined) return;
    const tags = await askTags(parts);
    if (!tags) return;
    const params: RememberParams = { text, now: withOffset(new Date()), ...(project ? { project } : {}), ...(tags.length > 0 ? { tags } : {}) };
    await tell(await parts.palace.request("palace/remember", params));
  } catch (error) {
    complain(error);
  }
}

async function tell({ note, isNew }: RememberResult): Promise<void> {
  const where = note.project === "" ? "" : ` in ${lastName(note.project)}`;
  const said = isNew ? `Palace remembers it${where}: “${cut(firstLine(note.text), 60)}”` : `Palace had this note${where} already. Nothing was added.`;
  if ((await vscode.window.showInformationMessage(plainMessage(said), "Open")) === undefined) return;
  await vscode.commands.executeCommand("palace.openExchange", { exchangeId: note.noteId });
}

/** All that is selected, as it stands; undefined where nothing is. */
function selectedText(): string | undefined {
  const editor = vscode.window.activeTextEditor;
  if (!editor) return undefined;
  const chosen = editor.selections.filter((one) => !one.isEmpty).map((one) => editor.document.getText(one));
  const text = chosen.join("\n");
  return text.trim() === "" ? undefined : text;
}

async function askText(): Promise<string | undefined> {
  const typed = await vscode.window.showInputBox({
    title: "Palace: remember",
    prompt: "What to remember. For several lines, select them in an editor first.",
  });
  return typed?.trim();
}

/** Shows what will be kept and asks where it belongs; undefined where the person left, empty for no project. */
async function askProject(text: string): Promise<string | undefined> {
  const lines = text.split("\n").length;
  const preview = `“${cut(firstLine(text), 60)}”${lines > 1 ? `, ${count(lines, "line")} in all` : ""}`;
  const projects = windowProjects().map((path) => ({ label: `$(root-folder) This project: ${plainLabel(lastName(path))}`, description: plainLabel(path), path }));
  const items = [...projects, { label: "$(globe) No project", description: "recall finds it anywhere", path: "" }];
  const chosen = await vscode.window.showQuickPick(items, { title: "Palace: remember (1 of 2). Where does it belong?", placeHolder: preview });
  return chosen?.path;
}

/** Asks for tags, with those in use to choose from; typing makes others. Undefined where the person left. */
async function askTags(parts: Parts): Promise<string[] | undefined> {
  const pick = vscode.window.createQuickPick<TagItem>();
  pick.title = "Palace: remember (2 of 2). Tags?";
  pick.placeholder = "Tick or type tags, with commas between; Enter keeps the note, without tags too";
  pick.canSelectMany = true;
  const known: string[] = [];
  let typed = new Set<string>();
  const show = (): void => {
    const ticked = pick.selectedItems.map((one) => one.tag).filter((tag) => !typed.has(tag)); // what was typed may have gone on
    const rows = tagRows(known, ticked, pick.value);
    typed = new Set(rows.filter((one) => one.isTyped).map((one) => one.tag));
    pick.items = rows.map(({ tag, isTyped }) => ({ tag, label: plainLabel(tag), alwaysShow: isTyped, ...(isTyped ? { description: "new tag" } : {}) }));
    pick.selectedItems = pick.items.filter((one) => ticked.includes(one.tag) || typed.has(one.tag));
  };
  const asked = new AbortController();
  const chosen = new Promise<string[] | undefined>((resolve) => {
    pick.onDidChangeValue(show);
    pick.onDidAccept(() => {
      resolve([...new Set([...pick.selectedItems.map((one) => one.tag), ...tagsOf(pick.value)])]);
      pick.hide();
    });
    pick.onDidHide(() => {
      resolve(undefined);
      asked.abort();
      pick.dispose();
    });
  });
  pick.show();
  parts.palace
    .request("palace/notes", { limit: NOTES_LOOKED_AT }, { signal: asked.signal })
    .then((answer) => {
      if ("notes" in answer) known.push(...new Set(answer.notes.flatMap((one) => one.tags)));
      show();
    })
    .catch((error: unknown) => {
      parts.log.debug(`no tags to offer: ${String(error)}`); // they can be typed
    });
  return await chosen;
}
