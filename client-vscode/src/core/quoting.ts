/** An exchange as text for somewhere else: the clipboard, an editor, a chat. */

import { agentName } from "./agents";
import type { WireExchange } from "./protocol";
import { dateAndTime, lastName } from "./wording";

/** What is copied and inserted: the reply, verbatim; of a note, or where there is no reply, what the person said. */
export function saidText(told: WireExchange): string {
  return told.replyText || told.userText;
}

/** Where and when it was said, in one line. */
export function saidWhere(told: WireExchange): string {
  const where = told.project ? ` in ${lastName(told.project)}` : "";
  const when = dateAndTime(told.startedAt);
  return `${agentName(told.agent)}${where}${when ? `, ${when}` : ""}`;
}

/**
 * The whole exchange as a Markdown quotation that says where it comes from, so that who reads it in a chat can tell what
 * was said then from what is asked now. Every line begins with `>`, whatever the text holds.
 */
export function quoteForChat(told: WireExchange): string {
  const source = told.provenance.find((one) => one.isOwner) ?? told.provenance[0];
  const lines = [`Quoted from an earlier session: ${saidWhere(told)}`];
  if (source && source.lineStart > 0) lines.push(`Source: ${source.path}, ${linesInWords(source.lineStart, source.lineEnd)}`);
  if (told.isSuperseded) lines.push("It was taken back or edited later.");
  if (told.userText.trim()) lines.push("", told.replyText.trim() ? "Asked:" : "Said:", "", told.userText.trim());
  if (told.replyText.trim()) lines.push("", "Answered:", "", told.replyText.trim());
  const quoted = lines.join("\n").split(/\r\n|\r|\n/);
  return `${quoted.map((line) => (line ? `> ${line}` : ">")).join("\n")}\n\n`;
}

/** `line 3`, `lines 3 to 11`. */
export function linesInWords(start: number, end: number): string {
  return end > start ? `lines ${start} to ${end}` : `line ${start}`;
}
