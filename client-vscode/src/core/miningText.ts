/** Mining in words: how far it is, and what came of it. */

import type { MineResult, ProgressValue } from "./protocol";
import { count, duration, number } from "./wording";

const STAGES: Readonly<Record<string, string>> = { mine: "reading transcripts", embed: "computing vectors", model: "loading the model" };

/** How far mining is, with what is left where that is known; empty where there is nothing to tell. */
export function progressWords(value: ProgressValue): string {
  if (value.kind !== "report") return "";
  const stage = STAGES[value.stage ?? ""] ?? value.stage ?? "";
  const far = value.done !== undefined && value.done !== null && value.total ? `${number(value.done)} of ${number(value.total)} ${value.unit ?? ""}`.trim() : "";
  const left = value.etaS !== undefined && value.etaS !== null && value.etaS >= 1 ? `about ${duration(value.etaS)} left` : "";
  const told = [far, left].filter(Boolean).join(", ");
  return told ? `${stage}: ${told}` : stage;
}

/** What mining did in one sentence or two, and whether a person should look at it. */
export function mineWords(done: MineResult): { readonly text: string; readonly isBad: boolean } {
  const changed = [
    done.exchangesAdded ? `${count(done.exchangesAdded, "exchange")} added` : "",
    done.exchangesReplaced ? `${number(done.exchangesReplaced)} replaced` : "",
    done.exchangesSuperseded ? `${number(done.exchangesSuperseded)} taken back` : "",
  ].filter(Boolean);
  const found = changed.length > 0 ? changed.join(", ") : "nothing new";
  if (done.files === 0) return { text: "Palace found no transcripts where it looks. Show Status lists the directories.", isBad: false };
  const sentences = [`Palace looked at ${count(done.files, "file")} in ${duration(Math.max(1, done.secondsToVectors, done.seconds))}: ${found}.`];
  if (done.filesFailed > 0) sentences.push(`${count(done.filesFailed, "file")} could not be read.`);
  if (done.vectorsReason) sentences.push(`Search by meaning does not know them yet: ${done.vectorsReason}.`);
  return { text: sentences.join(" "), isBad: done.filesFailed > 0 || done.vectorsReason !== "" };
}
