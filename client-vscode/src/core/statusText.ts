/** What the daemon holds and does, in words: for the status bar, its tooltip and the whole report. */

import { agentName } from "./agents";
import type { State } from "./palace";
import type { StatusResult } from "./protocol";
import type { Work } from "./statusWork";
import { ago, count, dateAndTime, duration, number, plainMarkdown, shortNumber, size } from "./wording";

/** `attention` and `broken` are for what needs a person: they colour the background. */
export type Severity = "fine" | "attention" | "broken";

export interface BarWords {
  /** With the editor's `$(icon)` marks. */
  readonly text: string;
  /** Markdown. */
  readonly tooltip: string;
  readonly severity: Severity;
  /** The text without icons, for screen readers. */
  readonly spoken: string;
}

/** Something that is not as it should be. */
export interface Problem {
  /** A few words, for the status bar. */
  readonly short: string;
  /** Whole sentences: what happened, and what to do. */
  readonly long: string;
  readonly needsPerson: boolean;
}

export interface Row {
  readonly label: string;
  readonly value: string;
}

export interface Section {
  readonly title: string;
  readonly rows: readonly Row[];
}

/**
 * What the status bar shows.
 *
 * @param status - The daemon's latest, if it told any since it was reached.
 * @param work - What it is busy with; undefined when that is nothing worth showing.
 */
export function barWords(state: State, status: StatusResult | undefined, work: Work | undefined, now: Date): BarWords {
  if (state.kind !== "ready") return absentWords(state);
  if (!status) return words("$(history) Palace", "Asking the daemon what it holds.", "fine");
  const held = shortNumber(status.exchanges);
  const found = problems(status);
  const worst = found.find((one) => one.needsPerson) ?? found[0];
  const severity: Severity = worst?.needsPerson ? "attention" : "fine";
  const said = worst ? ` · ${worst.short}` : "";
  const tooltip = readyTooltip(status, work, found, now);
  if (status.embedding.isPaused) return words(`$(debug-pause) ${held} · paused`, tooltip, severity);
  if (!work) return words(`$(history) ${held}${said}`, tooltip, severity);
  const share = work.percent === undefined ? "" : ` · ${work.percent} %`;
  return words(`$(sync~spin) ${held}${share}${worst?.needsPerson ? said : ""}`, tooltip, severity);
}

function words(text: string, tooltip: string, severity: Severity): BarWords {
  const plain = text.replace(/\$\([^)]*\) ?/g, "").replace(/ · /g, ", ");
  const spoken = plain.startsWith("Palace") ? plain : `Palace: ${plain.replace(/^[^,]+(,\d{3})*/, (held) => `${held} exchanges`)}`;
  return { text, tooltip, severity, spoken };
}

function absentWords(state: Exclude<State, { kind: "ready" }>): BarWords {
  switch (state.kind) {
    case "connecting":
      return words("$(loading~spin) Palace", "Looking for the daemon.", "fine");
    case "starting":
      return words("$(loading~spin) Palace: daemon starting", "The daemon is starting.", "fine");
    case "waiting":
      return words(
        "$(sync~spin) Palace: reconnecting",
        `${plainMarkdown(sentence(state.reason))} The next try is in ${duration(state.retryInMs / 1000)}.`,
        "fine",
      );
    case "missing":
      return words("$(warning) Palace: daemon not installed", plainMarkdown(`${sentence(state.reason)} ${sentence(state.hint)}`), "attention");
    case "failed":
      return words("$(error) Palace: daemon does not run", plainMarkdown(`${sentence(state.reason)} ${sentence(state.hint)}`), "broken");
    case "off":
      return words("$(circle-slash) Palace: off", `${plainMarkdown(sentence(state.reason ?? "The daemon is off"))} The command Palace: Restart Daemon starts it.`, "fine");
  }
}

/** What is not as it should be, the gravest first. */
export function problems(status: StatusResult): Problem[] {
  const found: Problem[] = [];
  const model = modelProblem(status);
  if (model) found.push(model);
  if (status.lastError && !(model && status.modelState.includes(status.lastError))) {
    found.push({
      short: "an error",
      long: `Last error: ${sentence(status.lastError)} The command Palace: Show Logs tells more.`,
      needsPerson: true,
    });
  }
  const failed = failedCount(status);
  if (failed > 0) {
    found.push({
      short: `${count(failed, "file")} failed`,
      long: `${count(failed, "file")} could not be read. Show Status lists them with the reason.`,
      needsPerson: false, // one odd file is no alarm: the others are read, and it is tried again when it changes
    });
  }
  if (status.notifier.toLowerCase().includes("polling")) {
    found.push({
      short: "slow to notice",
      long: `New transcripts are noticed late, since their directories are looked through in turn (${status.notifier}). A higher limit of watches in the system helps.`,
      needsPerson: false,
    });
  }
  return found;
}

function modelProblem(status: StatusResult): Problem | undefined {
  if (!status.modelState.startsWith("failed")) return undefined;
  const isMissing = status.modelState.includes("not installed");
  return {
    short: isMissing ? "vectors off: model not installed" : "vectors off: model does not load",
    long: isMissing
      ? `The model ${status.model} is not installed, so recall finds words but not meanings. Install it with: palace-daemon model install`
      : `The model ${status.model} does not load (${status.modelState.replace(/^failed: */, "")}), so recall finds words but not meanings. Palace: Show Logs tells more.`,
    needsPerson: true,
  };
}

/** How many transcript files could not be read. */
export function failedCount(status: StatusResult): number {
  return Math.max(status.sources.failed ?? 0, Object.keys(status.failures).length);
}

/** What the daemon works on in one line, with counts and the time that is left where that is known. */
export function workWords(work: Work): string {
  const left = work.etaS === undefined || work.etaS < 1 ? "" : `, about ${duration(work.etaS)} left`;
  const what = work.stage === "mine" ? "Reading transcripts" : "Computing vectors";
  const unit = work.stage === "mine" ? "files" : "texts";
  return `${what}: ${number(work.done)} of ${number(work.total)} ${unit}${left}`;
}

function readyTooltip(status: StatusResult, work: Work | undefined, found: readonly Problem[], now: Date): string {
  const lines = [`**Palace** · ${count(status.exchanges, "exchange")} in ${count(status.sessions, "session")}`];
  if (status.embedding.isPaused) lines.push("Mining is paused. Recall goes on.");
  else if (work) lines.push(plainMarkdown(workWords(work)));
  else if (status.exchanges === 0) lines.push("Nothing is indexed yet.");
  const pending = pendingWords(status);
  if (pending) lines.push(pending);
  const skipped = totalOf(status.linesSkipped);
  const files = status.sources.skipped ?? 0;
  if (skipped + files > 0) {
    lines.push(`Skipped: ${[files ? count(files, "file") : "", skipped ? count(skipped, "line") : ""].filter(Boolean).join(", ")}, ${mainReasons(status.linesSkipped)}`);
  }
  lines.push(...found.map((one) => `$(warning) ${plainMarkdown(one.long)}`));
  if (status.lastMinedAt) lines.push(`Last read ${ago(status.lastMinedAt, now)}`);
  return lines.join("\n\n");
}

function pendingWords(status: StatusResult): string {
  const waiting = [
    status.sourcesPending ? `${count(status.sourcesPending, "file")} to read` : "",
    status.vectorsPending ? `${count(status.vectorsPending, "text")} without a vector` : "",
  ].filter(Boolean);
  return waiting.length > 0 ? `Pending: ${waiting.join(", ")}` : "";
}

function mainReasons(skipped: Readonly<Record<string, number>>): string {
  const reasons = byCount(skipped);
  const named = reasons.slice(0, 3).map(([why]) => plainMarkdown(why.replace(/_/g, " ")));
  if (named.length === 0) return "as Show Status tells";
  return `most of them: ${named.join(", ")}`;
}

function totalOf(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, one) => sum + one, 0);
}

function byCount(counts: Readonly<Record<string, number>>): [string, number][] {
  return Object.entries(counts).sort(([one, few], [other, many]) => many - few || one.localeCompare(other));
}

/** Everything of `palace/status` in plain words. */
export function statusSections(status: StatusResult, now: Date): Section[] {
  const sections = [heldSection(status, now), modelSection(status)];
  const found = problems(status);
  if (found.length > 0) sections.unshift({ title: "Problems", rows: found.map((one) => ({ label: capital(one.short), value: one.long })) });
  const failures = Object.entries(status.failures);
  if (failures.length > 0) sections.push({ title: "Files that could not be read", rows: failures.map(([label, value]) => ({ label, value })) });
  sections.push({ title: "Directories that are watched", rows: watchedRows(status, now) });
  sections.push(daemonSection(status, now));
  const redacted = byCount(status.redactions).map(([kind, times]) => ({ label: capital(kind.replace(/_/g, " ")), value: count(times, "place") }));
  sections.push({ title: "Redacted, by kind", rows: redacted.length > 0 ? redacted : [{ label: "Nothing", value: "No secret was found in what was read" }] });
  const skipped = byCount(status.linesSkipped).map(([why, lines]) => ({ label: capital(why.replace(/_/g, " ")), value: count(lines, "line") }));
  if (skipped.length > 0) sections.push({ title: "Skipped, by reason", rows: skipped });
  return sections;
}

function heldSection(status: StatusResult, now: Date): Section {
  const files = byCount(status.sources).map(([state, some]) => `${number(some)} ${SOURCE_STATES[state] ?? state}`);
  const waiting = status.sourcesPending ? `${count(status.sourcesPending, "file")} to read` : "no file waits";
  const superseded = status.exchangesSuperseded ? `, and ${number(status.exchangesSuperseded)} that were taken back or edited` : "";
  return {
    title: "Indexed",
    rows: [
      { label: "Exchanges", value: `${number(status.exchanges)}${superseded}` },
      { label: "Sessions", value: number(status.sessions) },
      { label: "Passages", value: number(status.drawers) },
      { label: "Transcript files", value: files.join(", ") || "none found yet" },
      { label: "Pending", value: `${waiting}, ${count(status.vectorsPending, "text")} without a vector` },
      { label: "Mining", value: status.embedding.isPaused ? "paused; recall goes on" : "on" },
      { label: "Last read", value: status.lastMinedAt ? ago(status.lastMinedAt, now) : "never" },
    ],
  };
}

const SOURCE_STATES: Readonly<Record<string, string>> = {
  ok: "read",
  pending: "to be read",
  failed: "failed",
  skipped: "skipped",
  gone: "read and deleted since",
};

function modelSection(status: StatusResult): Section {
  const { embedding } = status;
  const roles = { answering: "answers", next: "is being prepared", previous: "was used before" };
  const pace = embedding.textsPerS ? `${embedding.textsPerS.toFixed(1)} texts per second on ${count(embedding.threads, "thread")}` : `on ${count(embedding.threads, "thread")}`;
  const left = status.vectorsPending && embedding.etaS ? `, about ${duration(embedding.etaS)} left` : "";
  const loaded = embedding.modelLoadMs === null ? "" : `, loaded in ${(embedding.modelLoadMs / 1000).toFixed(1)} s`;
  return {
    title: "Search by meaning",
    rows: [
      { label: "Model", value: `${status.model || "none"}: ${status.modelState}${loaded}` },
      ...embedding.coverage.map((one) => ({ label: "Vectors", value: `${number(one.vectors)} of ${number(one.texts)} texts; ${one.model} ${roles[one.role]}` })),
      { label: "Pace", value: `${pace}${left}` },
      ...(embedding.truncated ? [{ label: "Cut", value: `${count(embedding.truncated, "text")} too long for the model` }] : []),
    ],
  };
}

function watchedRows(status: StatusResult, now: Date): Row[] {
  const isTold = (one: StatusResult["watched"][number]): boolean => one.exists || one.origin !== "default";
  const rows = status.watched.filter(isTold).map((one) => {
    const state = one.exists ? `${count(one.files, "file")}, ${size(one.sizeBytes)}` : "does not exist yet";
    const since = one.foundAt ? `, new since ${ago(one.foundAt, now)}` : "";
    return { label: one.path, value: `${one.agent ? agentName(one.agent) : one.origin}: ${state}${since}` };
  });
  const absent = status.watched.filter((one) => !isTold(one));
  const agents = [...new Set(absent.map((one) => agentName(one.agent)))].join(", ");
  if (absent.length > 0) rows.push({ label: "Not there yet", value: `${count(absent.length, "directory", "directories")} of ${agents}` });
  return rows;
}

function daemonSection(status: StatusResult, now: Date): Section {
  return {
    title: "Daemon",
    rows: [
      { label: "Version", value: `${status.version}, protocol ${status.protocolVersion}` },
      { label: "Process", value: `${status.pid}, up ${duration(status.uptimeS)}` },
      { label: "Memory", value: size(status.rssBytes) },
      { label: "Data directory", value: status.dataDir },
      { label: "Database", value: size(status.databaseBytes) },
      { label: "Notices changes by", value: status.notifier },
      { label: "Started", value: ago(status.startedAt, now) || "unknown" },
      { label: "Last error", value: status.lastError || "none" },
    ],
  };
}

/** The sections as one Markdown document; paths and messages in it are plain text. */
export function statusDocument(sections: readonly Section[], now: Date): string {
  const parts = sections.map(({ title, rows }) => {
    const lines = rows.map(({ label, value }) => `| ${cell(label)} | ${cell(value)} |`);
    return [`## ${plainMarkdown(title)}`, "", "| | |", "|---|---|", ...lines].join("\n");
  });
  return `# Palace: status\n\nAs of ${plainMarkdown(dateAndTime(now.toISOString()))}; Palace: Show Status makes it anew.\n\n${parts.join("\n\n")}\n`;
}

function cell(text: string): string {
  return plainMarkdown(text.replace(/\s+/g, " "));
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function sentence(text: string): string {
  const trimmed = capital(text.trim());
  return trimmed === "" || /[.!?…]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}
