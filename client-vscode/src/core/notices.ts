/** Rows of the palette that are no hits: why there are none, and what can be done about it. */

import { inWords } from "./errors";
import type { Asked } from "./filters";
import type { State } from "./palace";
import type { RecallResult, WireProject } from "./protocol";
import { missing } from "./rows";
import { count, lastName, number, plainLabel } from "./wording";

/** What Enter does on a row. */
export type Action =
  | { readonly kind: "command"; readonly command: string }
  /** Drops every filter and searches again. */
  | { readonly kind: "widen" }
  /** Filters by this project instead. */
  | { readonly kind: "project"; readonly project: string }
  | { readonly kind: "retry" };

export interface NoticeRow {
  readonly kind: "notice";
  readonly label: string;
  readonly detail: string;
  readonly icon: string;
  readonly action?: Action;
}

/** What the daemon holds; undefined until it told. */
export interface Indexed {
  readonly exchanges: number;
  readonly projects: readonly WireProject[];
}

/** The placeholder of the input. */
export function placeholder(indexed: Indexed | undefined): string {
  if (!indexed) return "Search what you and your agents said";
  if (!indexed.exchanges) return "Nothing is stored yet";
  const named = indexed.projects.filter((one) => one.path !== "").length;
  return `Search ${count(indexed.exchanges, "exchange")}${named ? ` of ${count(named, "project")}` : ""}`;
}

/** Rows for an answer without hits: where it looked, what there is, and how to look further. */
export function emptyRows(result: RecallResult, asked: Asked, indexed: Indexed | undefined): NoticeRow[] {
  const { drawers } = result.freshness;
  const pending = missing(result.freshness, asked.params.query);
  if (!drawers) return [nothingStored(pending)];
  const projects = indexed?.projects;
  const { project: wanted } = asked;
  const isUnknown = wanted !== undefined && projects !== undefined && !projects.some((one) => isProject(one.path, wanted));
  const rows: NoticeRow[] = [isUnknown ? unknownProject(wanted) : nothingFound(result, asked, indexed, pending)];
  for (const project of result.projectsNear) {
    const label = plainLabel(`Search in ${lastName(project)}`);
    rows.push({ kind: "notice", label, detail: plainLabel(project), icon: "folder", action: { kind: "project", project } });
  }
  if (asked.isNarrowed) {
    const detail = `${count(drawers, "passage")}${projects ? ` of ${count(projects.length, "project")}` : ""}, all agents, any time`;
    rows.push({ kind: "notice", label: "Search everything", detail, icon: "search", action: { kind: "widen" } });
  }
  return rows;
}

function nothingStored(pending: readonly string[]): NoticeRow {
  return {
    kind: "notice",
    label: "Nothing is stored yet",
    detail: pending.length ? `${pending.join(", ")}. Enter shows how far it is.` : "Palace reads your agents' transcripts as they are written. Enter shows where it looks.",
    icon: "info",
    action: { kind: "command", command: "palace.showStatus" },
  };
}

function unknownProject(project: string): NoticeRow {
  return {
    kind: "notice",
    label: plainLabel(`Palace knows no project “${lastName(project)}”`),
    detail: plainLabel(`No session of an agent in ${project} was read so far.`),
    icon: "info",
  };
}

function nothingFound(result: RecallResult, asked: Asked, indexed: Indexed | undefined, pending: readonly string[]): NoticeRow {
  const { inScope } = result.totals;
  const { drawers } = result.freshness;
  const all = `${number(drawers)} ${drawers === 1 ? "passage is" : "passages are"} indexed`;
  const scope = inScope === drawers ? "" : inScope ? `, ${number(inScope)} of them here` : ", none of them here";
  const exchanges = indexed && inScope === drawers ? ` from ${count(indexed.exchanges, "exchange")}` : "";
  return {
    kind: "notice",
    label: plainLabel(`Nothing found ${asked.where}`),
    detail: `${[`${all}${scope}${exchanges}`, ...pending].join("; ")}.`,
    icon: "info",
  };
}

/** Whether `wanted` names `project`, as the daemon's filter reads it: its path, a directory above it, or its last name. */
export function isProject(project: string, wanted: string): boolean {
  const named = wanted.replace(/[\\/]+$/, "") || wanted;
  if (project === "") return false;
  return project === named || project.startsWith(`${named}/`) || project.startsWith(`${named}\\`) || lastName(project) === named;
}

/** A row for a filter that filters nothing yet. */
export function hintRow(hint: string): NoticeRow {
  return { kind: "notice", label: plainLabel(hint), detail: "It filters nothing yet.", icon: "filter" };
}

/** A row for a question that could not be answered. */
export function errorRow(error: unknown): NoticeRow {
  return {
    kind: "notice",
    label: "The search failed",
    detail: plainLabel(`${inWords(error)} Enter tries again.`),
    icon: "error",
    action: { kind: "retry" },
  };
}

/** A row for a daemon that cannot be asked; undefined where it can. */
export function stateRow(state: State): NoticeRow | undefined {
  const row = (label: string, detail: string, icon: string, command?: string): NoticeRow => {
    const action: Action | undefined = command === undefined ? undefined : { kind: "command", command };
    return { kind: "notice", label, detail: plainLabel(detail.trim()), icon, ...(action ? { action } : {}) };
  };
  const goesOn = "The search goes on by itself when it is ready.";
  switch (state.kind) {
    case "ready":
      return undefined;
    case "connecting":
      return row("Palace's daemon is being looked for", goesOn, "loading~spin");
    case "starting":
      return row("Palace's daemon is starting", goesOn, "loading~spin");
    case "waiting":
      return row("Palace's daemon was lost and is being started again", `${dotted(state.reason)} ${goesOn}`, "loading~spin");
    case "missing":
      return row("Install Palace's daemon…", `${dotted(state.reason)} ${dotted(state.hint)}`, "cloud-download", "palace.installDaemon");
    case "failed":
      return row("Restart Palace's daemon", `${dotted(state.reason)} ${dotted(state.hint)}`, "debug-restart", "palace.restartDaemon");
    case "off":
      return row("Start Palace's daemon", "It is off, so that nothing can be searched.", "debug-start", "palace.restartDaemon");
  }
}

/** As a sentence; nothing stays nothing. */
function dotted(text: string): string {
  return text ? inWords(new Error(text)) : "";
}
