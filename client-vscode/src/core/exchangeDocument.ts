/**
 * An exchange as a read-only document.
 *
 * It is Markdown that is read as text, not rendered: what was said stands in it verbatim, inside fences that nothing in
 * it can close, so that it can be selected and copied unchanged, and no picture or page that a transcript names is
 * loaded. Links therefore are places in the text, which the editor underlines, and no Markdown.
 */

import { agentName, NOTE } from "./agents";
import { linesInWords } from "./quoting";
import type { WireExchange, WireNeighbour, WireProvenance } from "./protocol";
import { askedLine } from "./rows";
import { plainLine, shortened } from "./snippet";
import { beginning, count, dateAndTime, visible } from "./wording";

/** The scheme of such documents. */
export const SCHEME = "palace-exchange";

const TITLE_CHARS = 60;
const HEADING_CHARS = 120;
const NEIGHBOUR_CHARS = 120;
/** Of a neighbour's reply no more than this is looked at. */
const NEIGHBOUR_CHARS_READ = 2_000;

export type LinkTarget =
  | { readonly kind: "exchange"; readonly exchangeId: string }
  /** One of the exchange's places: its index in `provenance`. */
  | { readonly kind: "transcript"; readonly exchangeId: string; readonly place: number };

export interface DocumentLinkPlace {
  /** From 0, as the editor counts. */
  readonly line: number;
  readonly start: number;
  readonly end: number;
  readonly target: LinkTarget;
  readonly tooltip: string;
}

export interface ExchangeText {
  readonly text: string;
  readonly links: readonly DocumentLinkPlace[];
}

/** What the exchange is called: the first line of what the person asked. */
export function titleOf(told: WireExchange, most = TITLE_CHARS): string {
  return askedLine(told.userText, most) || shortened(plainLine(told.sessionTitle), most) || "Exchange";
}

/** The title as the last name of a path: without what file systems and URIs give a meaning to. */
export function fileNameOf(title: string): string {
  const kept = title
    .replace(/[\p{Cc}\\/:*?"<>|#%]+/gu, " ")
    .replace(/\s+/g, " ")
    .replace(/^[.\s]+|[.…\s]+$/g, "");
  return `${kept || "Exchange"}.md`;
}

/** A fence that nothing in `text` can close: longer than each run of backticks in it. */
export function fenceFor(text: string): string {
  return "`".repeat(Math.max(3, longestTicks(text) + 1));
}

function longestTicks(text: string): number {
  let longest = 0;
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length);
  return longest;
}

/** Foreign text outside of the fences, in one line: nothing in it is a link, a picture or HTML if the document is previewed. */
function plain(text: string): string {
  return visible(text).replace(/\](?=[([])/g, "]\u200b").replace(/<(?=[a-z!/?])/gi, "<\u200b");
}

class Writer {
  readonly #lines: string[] = [];
  readonly #links: DocumentLinkPlace[] = [];

  line(text = ""): void {
    for (const one of text.split(/\r\n|\r|\n/)) this.#lines.push(one); // more lines than a call takes arguments
  }

  /** A line whose part `linked` leads to `target`. */
  linkLine(before: string, linked: string, after: string, target: LinkTarget, tooltip: string): void {
    const start = before.length;
    this.#links.push({ line: this.#lines.length, start, end: start + linked.length, target, tooltip });
    this.line(`${before}${linked}${after}`);
  }

  section(title: string): void {
    this.line();
    this.line(`## ${title}`);
    this.line();
  }

  verbatim(text: string): void {
    const fence = fenceFor(text);
    this.line(`${fence}markdown`);
    this.line(text);
    this.line(fence);
  }

  get written(): ExchangeText {
    return { text: `${this.#lines.join("\n")}\n`, links: this.#links };
  }
}

/** Writes the document of an exchange that was asked for with its neighbours. */
export function exchangeText(told: WireExchange): ExchangeText {
  const writer = new Writer();
  writer.line(`# ${plain(titleOf(told, HEADING_CHARS))}`);
  writer.line();
  for (const line of facts(told)) writer.line(`- ${plain(line)}`);
  if (told.userText.trim()) {
    writer.section(told.replyText.trim() ? "Asked" : "Said");
    writer.verbatim(told.userText);
  }
  if (told.replyText.trim()) {
    writer.section("Answered");
    writer.verbatim(told.replyText);
  }
  if (told.tools.length) {
    writer.section("Tools used");
    for (const tool of told.tools) writer.line(`- ${plain(tool.name)}${tool.target ? ` ${code(tool.target)}` : ""}`);
  }
  writePlaces(writer, told);
  writeNeighbours(writer, told);
  return writer.written;
}

/** What is to be said of a reply that did not end as it should. */
const STATUS_WORDS: Readonly<Record<string, string>> = {
  open: "The reply may not be finished.",
  interrupted: "The reply was interrupted.",
  error: "The reply ended with an error.",
};

function facts(told: WireExchange): string[] {
  const isAbout = told.timeQuality !== "exact" && told.startedAt !== null;
  const [began, ended] = [dateAndTime(told.startedAt), dateAndTime(told.endedAt)];
  const took = began && ended && ended !== began ? `${began} to ${ended}` : began;
  return [
    `Agent: ${agentName(told.agent)}${told.model ? `, ${told.model}` : ""}`,
    told.project ? `Project: ${told.project}` : "Project: none",
    told.cwd && told.cwd !== told.project ? `Directory: ${told.cwd}` : "",
    told.branch ? `Branch: ${told.branch}` : "",
    `When: ${took ? `${isAbout ? "about " : ""}${took}` : "unknown"}`,
    told.sessionTitle ? `Session: ${shortened(plainLine(told.sessionTitle), NEIGHBOUR_CHARS)}` : "",
    told.agent === NOTE ? "" : `Session id: ${told.sessionId}`, // for the filter session:
    told.isSuperseded ? "It was taken back or edited later." : "",
    STATUS_WORDS[told.status] ?? "",
    told.flags.includes("redacted") ? "Secrets in it were left out when it was stored." : "",
  ].filter(Boolean);
}

function writePlaces(writer: Writer, told: WireExchange): void {
  const places = told.provenance;
  if (!places.length) return;
  writer.section("Where it stands");
  for (const [place, source] of places.entries()) {
    if (!isFile(source)) writer.line("- Kept by Palace itself, as a note");
    else {
      const lines = source.lineStart > 0 ? `, ${linesInWords(source.lineStart, source.lineEnd)}` : "";
      writer.linkLine(
        "- ",
        `${plain(source.path)}${lines}`,
        source.isOwner && places.length > 1 ? " (this text)" : "",
        { kind: "transcript", exchangeId: told.exchangeId, place },
        "Open the transcript here",
      );
    }
  }
}

function writeNeighbours(writer: Writer, told: WireExchange): void {
  if (!told.neighbours.length) return;
  writer.section("Before and after");
  for (const beside of told.neighbours) {
    const reply = plain(shortened(plainLine(beginning(beside.replyText, NEIGHBOUR_CHARS_READ)), NEIGHBOUR_CHARS));
    const asked = plain(askedLine(beside.userText, NEIGHBOUR_CHARS)) || reply || "(no words)";
    writer.linkLine(`- ${position(beside)}: `, asked, "", { kind: "exchange", exchangeId: beside.exchangeId }, "Open this exchange");
    if (reply && reply !== asked) writer.line(`  ${reply}`);
  }
}

function position(beside: WireNeighbour): string {
  const away = Math.abs(beside.relation);
  const side = beside.relation < 0 ? "Before" : "After";
  return away > 1 ? `${count(away, "turn")} ${side.toLowerCase()}` : side;
}

/** Whether the place is a file: notes stand in Palace alone. */
export function isFile(source: WireProvenance): boolean {
  return !source.path.startsWith("palace:");
}

/** Text as inline code, on one line. */
function code(text: string): string {
  const line = shortened(visible(beginning(text, 2_000)).replace(/\s+/g, " ").trim(), 200);
  const ticks = "`".repeat(longestTicks(line) + 1);
  return ticks.length > 1 ? `${ticks} ${line} ${ticks}` : `${ticks}${line}${ticks}`;
}

/** What a document says whose exchange is not there any more. */
export function goneText(exchangeId: string): string {
  return `# Forgotten\n\nThe exchange ${exchangeId} is not in Palace's memory any more. Its transcript may still stand where the agent wrote it.\n`;
}

/** What a document says while the daemon cannot be asked. */
export function failedText(reason: string): string {
  return `# Not shown\n\n${reason} This page fills itself when Palace's daemon is ready.\n`;
}
