/** Exchanges as read-only documents, the way back to their transcripts, and copying them. */

import { stat } from "node:fs/promises";
import * as path from "node:path";

import * as vscode from "vscode";

import { inWords, isCancelled, PalaceError } from "../core/errors";
import {
  type ExchangeText,
  exchangeText,
  failedText,
  fileNameOf,
  goneText,
  isFile,
  type LinkTarget,
  SCHEME,
  titleOf,
} from "../core/exchangeDocument";
import type { WireExchange, WireProvenance } from "../core/protocol";
import { saidText } from "../core/quoting";
import { plainMessage, size } from "../core/wording";
import type { Parts } from "./parts";

const NEIGHBOURS = 2;
/** Above this the editor does not give a file to extensions, and opens it slowly. */
const BIG_FILE_BYTES = 50 * 1024 * 1024;
const TOLD_MS = 3_000;
/** Agents that keep their sessions in a database have no lines to go to. */
const DATABASES = new Set([".db", ".sqlite", ".sqlite3", ".vscdb"]);

const OPEN = "Open Anyway";
const REVEAL = "Reveal in Folder";
const COPY_PATH = "Copy Path";

/** Registers the commands that open, copy and go to the transcript. */
export function registerExchanges(parts: Parts): vscode.Disposable {
  return vscode.Disposable.from(
    parts.command("palace.openExchange", (argument) => withExchange(argument, (id) => showExchange(parts, id))),
    parts.command("palace.openTranscript", (argument) => withExchange(argument, (id) => openTranscript(parts, id, placeOf(argument)))),
    parts.command("palace.copyItem", (argument) => withExchange(argument, (id) => copyExchange(parts, id))),
  );
}

/** Opens the exchange as a document; what goes wrong is told to the person, and nothing is thrown. */
export async function showExchange(parts: Parts, exchangeId: string): Promise<void> {
  const told = await read(parts, exchangeId);
  if (!told) return;
  try {
    const document = await vscode.workspace.openTextDocument(uriOf(told));
    await vscode.window.showTextDocument(document, { preview: true });
  } catch (error) {
    void vscode.window.showErrorMessage(plainMessage(`The exchange cannot be shown. ${inWords(error)}`));
  }
}

/** Reads an exchange for a command: the person hears why if it cannot be read, and nothing comes back then. */
export async function read(parts: Parts, exchangeId: string): Promise<WireExchange | undefined> {
  try {
    return await parts.palace.request("palace/get", { id: exchangeId });
  } catch (error) {
    if (isGone(error)) void vscode.window.showWarningMessage("This exchange is not in Palace's memory any more: it was forgotten.");
    else if (!isCancelled(error)) void vscode.window.showErrorMessage(plainMessage(`The exchange cannot be read. ${inWords(error)}`));
    return undefined;
  }
}

function isGone(error: unknown): boolean {
  return error instanceof PalaceError && error.kind === "notFound";
}

function uriOf(told: WireExchange): vscode.Uri {
  return vscode.Uri.from({ scheme: SCHEME, path: `/${fileNameOf(titleOf(told))}`, query: `id=${told.exchangeId}` });
}

/** The exchange that such a document shows. */
export function idIn(uri: vscode.Uri): string | undefined {
  return uri.scheme === SCHEME ? (/(?:^|&)id=([^&]+)/.exec(uri.query)?.[1] ?? undefined) : undefined;
}

/** The exchange that a command is about: a row of a tree, `{exchangeId}`, a document's address, or the document in front. */
function exchangeIdOf(argument: unknown): string | undefined {
  if (typeof argument === "object" && argument !== null) {
    if ("exchangeId" in argument && typeof argument.exchangeId === "string") return argument.exchangeId;
    if ("scheme" in argument && "query" in argument) return idIn(argument as vscode.Uri);
  }
  const front = vscode.window.activeTextEditor?.document.uri;
  return front ? idIn(front) : undefined;
}

function placeOf(argument: unknown): number | undefined {
  if (typeof argument !== "object" || argument === null || !("place" in argument)) return undefined;
  return typeof argument.place === "number" ? argument.place : undefined;
}

async function withExchange(argument: unknown, run: (exchangeId: string) => Promise<void>): Promise<void> {
  const exchangeId = exchangeIdOf(argument);
  if (exchangeId !== undefined) await run(exchangeId);
  else void vscode.window.showInformationMessage("No exchange is open. Find one with Palace: Recall first.");
}

/** Puts the reply, verbatim, into the clipboard. */
export async function copyExchange(parts: Parts, exchangeId: string): Promise<void> {
  const told = await read(parts, exchangeId);
  if (!told) return;
  await vscode.env.clipboard.writeText(saidText(told));
  vscode.window.setStatusBarMessage(told.replyText ? "Palace: the reply is copied" : "Palace: the text is copied", TOLD_MS);
}

/** Opens the transcript at the exchange's lines; `place` is one of its places, otherwise the first that is still there. */
export async function openTranscript(parts: Parts, exchangeId: string, place?: number): Promise<void> {
  const told = await read(parts, exchangeId);
  if (!told) return;
  const files = told.provenance.filter(isFile);
  const wanted = place === undefined ? undefined : told.provenance[place];
  const ordered = wanted && isFile(wanted) ? [wanted] : [...files.filter((one) => one.isOwner), ...files.filter((one) => !one.isOwner)];
  const [first] = ordered;
  if (!first) {
    void vscode.window.showInformationMessage("This is a note: Palace keeps it itself, and there is no transcript.");
    return;
  }
  for (const source of ordered) {
    const bytes = await sizeOf(source.path);
    if (bytes === undefined) continue;
    await openSource(source, bytes);
    return;
  }
  await offer(`The transcript is gone: ${first.path}. Palace keeps its text.`, [COPY_PATH], first);
}

async function openSource(source: WireProvenance, bytes: number): Promise<void> {
  const name = path.basename(source.path);
  if (DATABASES.has(path.extname(source.path).toLowerCase())) {
    await offer(`The agent keeps this session in a database, ${name}, which the editor cannot show.`, [REVEAL, COPY_PATH], source);
  } else if (bytes > BIG_FILE_BYTES) {
    await offer(`The transcript ${name} has ${size(bytes)}. The editor opens such files slowly.`, [OPEN, REVEAL, COPY_PATH], source);
  } else {
    await openAt(source);
  }
}

async function openAt(source: WireProvenance): Promise<void> {
  const first = Math.max(0, source.lineStart - 1);
  // Lines of transcripts may have megabytes: the caret goes to the first line, and no text is selected.
  const options: vscode.TextDocumentShowOptions = { preview: true, selection: new vscode.Range(first, 0, first, 0) };
  try {
    await vscode.commands.executeCommand("vscode.open", vscode.Uri.file(source.path), options);
  } catch (error) {
    await offer(`The transcript cannot be opened. ${inWords(error)}`, [REVEAL, COPY_PATH], source);
  }
}

/** Says what stands in the way, with what can be done instead. */
async function offer(text: string, wanted: readonly string[], source: WireProvenance): Promise<void> {
  const isLocal = vscode.env.remoteName === undefined;
  const buttons = wanted.filter((button) => button !== REVEAL || isLocal); // a remote window has no folder to show
  const chosen = await vscode.window.showWarningMessage(plainMessage(text), ...buttons);
  if (chosen === OPEN) await openAt(source);
  if (chosen === REVEAL) await vscode.commands.executeCommand("revealFileInOS", vscode.Uri.file(source.path));
  if (chosen === COPY_PATH) await vscode.env.clipboard.writeText(source.path);
}

async function sizeOf(file: string): Promise<number | undefined> {
  try {
    const found = await stat(file);
    return found.isFile() ? found.size : undefined;
  } catch {
    return undefined;
  }
}

/** What the documents show, and where their links lead. Those that are open follow what the daemon mines and forgets. */
export class ExchangeDocuments implements vscode.TextDocumentContentProvider, vscode.DocumentLinkProvider, vscode.Disposable {
  readonly #parts: Parts;
  readonly #changed = new vscode.EventEmitter<vscode.Uri>();
  readonly #shown = new Map<string, ExchangeText>();
  readonly #listening: { dispose(): void }[];
  readonly onDidChange = this.#changed.event;

  constructor(parts: Parts) {
    this.#parts = parts;
    const refresh = (): void => {
      void this.#refresh();
    };
    this.#listening = [
      parts.palace.on("palace/didMine", refresh),
      parts.palace.onDidChangeState((state) => {
        if (state.kind === "ready") refresh();
      }),
    ];
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const exchangeId = idIn(uri) ?? "";
    const written = await this.#written(exchangeId);
    this.#shown.set(uri.toString(), written);
    return written.text;
  }

  provideDocumentLinks(document: vscode.TextDocument): vscode.DocumentLink[] {
    const links = this.#shown.get(document.uri.toString())?.links ?? [];
    return links.map((one) => {
      const link = new vscode.DocumentLink(new vscode.Range(one.line, one.start, one.line, one.end), commandUri(one.target));
      link.tooltip = one.tooltip;
      return link;
    });
  }

  dispose(): void {
    for (const one of this.#listening) one.dispose();
    this.#changed.dispose();
  }

  async #written(exchangeId: string): Promise<ExchangeText & { isFailed?: boolean }> {
    try {
      return exchangeText(await this.#parts.palace.request("palace/get", { id: exchangeId, neighbours: NEIGHBOURS }));
    } catch (error) {
      return isGone(error) ? { text: goneText(exchangeId), links: [] } : { text: failedText(inWords(error)), links: [], isFailed: true };
    }
  }

  async #refresh(): Promise<void> {
    const open = vscode.workspace.textDocuments.filter((one) => one.uri.scheme === SCHEME);
    const kept = new Set(open.map((one) => one.uri.toString()));
    for (const known of this.#shown.keys()) if (!kept.has(known)) this.#shown.delete(known);
    for (const { uri } of open) {
      const written = await this.#written(idIn(uri) ?? "");
      const before = this.#shown.get(uri.toString());
      // What cannot be asked now stays as it was.
      if (written.text !== before?.text && (!written.isFailed || !before)) this.#changed.fire(uri);
    }
  }
}

function commandUri(target: LinkTarget): vscode.Uri {
  const [command, argument] =
    target.kind === "exchange"
      ? ["palace.openExchange", { exchangeId: target.exchangeId }]
      : ["palace.openTranscript", { exchangeId: target.exchangeId, place: target.place }];
  return vscode.Uri.parse(`command:${command}?${encodeURIComponent(JSON.stringify([argument]))}`);
}
