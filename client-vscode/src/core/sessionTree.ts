/** The tree of recent sessions: projects, their sessions, their exchanges. Orders nothing but what stands first. */

import { agentIcon, agentName, NOTE } from "./agents";
import type { WireExchange, WireProject, WireSession } from "./protocol";
import { ago, count, cut, dateAndTime, firstLine, lastName, number, plainMarkdown, timeOfDay } from "./wording";

/** How many projects are asked for at a time. */
export const PROJECTS_PAGE = 100;
const PREVIEW_CHARS = 600;

export interface ProjectNode {
  readonly kind: "project";
  /** Empty for what belongs to no project. */
  readonly project: string;
  readonly told: WireProject;
  readonly isOfWindow: boolean;
  /** Another project in the list has the same name. */
  readonly isNamesake: boolean;
}

export interface SessionNode {
  readonly kind: "session";
  readonly sessionId: string;
  /** The project that it is listed below: a session that went through several stands below each. */
  readonly owner: string;
  readonly told: WireSession;
  /** Sessions of sub-agents that this one started, the newest first. */
  readonly below: readonly SessionNode[];
}

/** What programs asked by themselves, and sub-agents whose parent is not listed. */
export interface AutomatedNode {
  readonly kind: "automated";
  readonly owner: string;
  readonly below: readonly SessionNode[];
}

export interface ExchangeNode {
  readonly kind: "exchange";
  readonly exchangeId: string;
  /** As of its session. */
  readonly owner: string;
  readonly told: WireExchange;
}

/** Asks for more of a list: of the projects, or of one project's sessions. */
export interface MoreNode {
  readonly kind: "more";
  /** The project whose sessions go on; undefined for the list of projects. */
  readonly of: string | undefined;
}

/** Says why a project has nothing below it. */
export interface EmptyNode {
  readonly kind: "empty";
  readonly owner: string;
}

export type TreeNode = ProjectNode | SessionNode | AutomatedNode | ExchangeNode | MoreNode | EmptyNode;

/** What the editor shows of a node; `icon` names one of the editor's icons. */
export interface NodeLook {
  /** The same for the same thing at every refresh, so that what is expanded stays so; the editor refuses what is there twice. */
  readonly id: string;
  readonly label: string;
  readonly description: string;
  readonly icon: string;
  readonly contextValue: string;
  readonly shape: "leaf" | "collapsed" | "expanded";
  /** Markdown from plain text, or empty where the label says it all. */
  readonly tooltip: string;
}

/**
 * The projects as the daemon lists them, with those of this window first.
 *
 * @param ofWindow - Paths of the projects that this window's folders belong to.
 */
export function projectNodes(projects: readonly WireProject[], ofWindow: readonly string[]): ProjectNode[] {
  const names = new Map<string, number>();
  for (const { name } of projects) names.set(name, (names.get(name) ?? 0) + 1);
  const nodes = projects.map((told): ProjectNode => {
    const isOfWindow = told.path !== "" && ofWindow.includes(told.path);
    return { kind: "project", project: told.path, told, isOfWindow, isNamesake: (names.get(told.name) ?? 0) > 1 };
  });
  return [...nodes.filter((one) => one.isOfWindow), ...nodes.filter((one) => !one.isOfWindow)];
}

/**
 * Sessions of one project: sub-agents below the session that started them, and last, behind one node, what was automated.
 *
 * Within each list the daemon's order stays.
 */
export function sessionNodes(sessions: readonly WireSession[], owner: string): (SessionNode | AutomatedNode)[] {
  const listed = new Set(sessions.map((one) => one.sessionId));
  const isBelow = (one: WireSession): boolean =>
    one.relation === "subagent" && one.parentSessionId !== one.sessionId && listed.has(one.parentSessionId);
  const made = new Set<string>();
  const node = (told: WireSession): SessionNode => {
    made.add(told.sessionId);
    const below = sessions.filter((one) => isBelow(one) && one.parentSessionId === told.sessionId && !made.has(one.sessionId));
    return { kind: "session", sessionId: told.sessionId, owner, told, below: below.map(node) };
  };
  const roots = sessions.filter((one) => !isBelow(one));
  const byPeople = roots.filter((one) => !one.isAutomated && one.relation !== "subagent").map(node);
  const rest = roots.filter((one) => one.isAutomated || one.relation === "subagent").map(node);
  for (const one of sessions) if (!made.has(one.sessionId)) rest.push(node(one)); // two that name each other as parent
  return rest.length > 0 ? [...byPeople, { kind: "automated", owner, below: rest }] : byPeople;
}

export function exchangeNodes(exchanges: readonly WireExchange[], owner: string): ExchangeNode[] {
  return exchanges.map((told) => ({ kind: "exchange", exchangeId: told.exchangeId, owner, told }));
}

/** How a node looks at the time `now`. */
export function look(node: TreeNode, now: Date): NodeLook {
  switch (node.kind) {
    case "project":
      return lookOfProject(node, now);
    case "session":
      return lookOfSession(node, now);
    case "automated":
      return {
        id: `automated:${node.owner}`,
        label: "Automated sessions",
        description: number(node.below.length),
        icon: "server-process",
        contextValue: "automated",
        shape: "collapsed",
        tooltip: "Sub-agents and programs started these; no person asked in them.",
      };
    case "exchange":
      return lookOfExchange(node);
    case "more":
      return {
        id: `more:${node.of === undefined ? "projects" : `sessions:${node.of}`}`,
        label: "More…",
        description: "",
        icon: "ellipsis",
        contextValue: "more",
        shape: "leaf",
        tooltip: "",
      };
    case "empty":
      return {
        id: `empty:${node.owner}`,
        label: "In sessions of other projects",
        description: "Recall finds them",
        icon: "info",
        contextValue: "empty",
        shape: "leaf",
        tooltip: "No session belongs to this project as a whole: notes, and what was said on a visit from another project, do.",
      };
  }
}

/** A session's title, or words for one that has none. */
export function sessionTitle(title: string): string {
  return firstLine(title) || "(no words)";
}

/** An exchange's question in one line, or words for one that has none. */
export function exchangeTitle(told: WireExchange): string {
  return firstLine(told.userText) || firstLine(told.replyText) || "(no words)";
}

/** The beginnings of question and reply, as Markdown in which the transcript's own text is plain text. */
export function preview(told: WireExchange): string {
  const heading = [agentName(told.agent), dateAndTime(told.startedAt), told.model].filter((one) => one !== "").join(" · ");
  const parts = [`**${plainMarkdown(heading)}**`, plainMarkdown(cut(told.userText.trim(), PREVIEW_CHARS)) || "*(no words)*"];
  const reply = told.replyText.slice(told.replyFinalStart).trim() || told.replyText.trim();
  if (reply) parts.push("---", plainMarkdown(cut(reply, PREVIEW_CHARS)));
  if (told.isSuperseded) parts.push("---", "*Taken back or edited later.*");
  return parts.join("\n\n");
}

function lookOfProject(node: ProjectNode, now: Date): NodeLook {
  const { told } = node;
  const where = told.path === "" ? "Sessions that belong to no project." : plainMarkdown(told.path);
  const agents = told.agents.length > 0 ? `\n\n${plainMarkdown(told.agents.map(agentName).join(", "))}` : "";
  return {
    id: `project:${told.path}`,
    label: told.path === "" ? "No project" : node.isNamesake ? lastNames(told.path) : told.name || lastName(told.path),
    description: [count(told.sessions, "session"), node.isOfWindow ? "this window" : ago(told.newestAt, now)].filter(Boolean).join(" · "),
    icon: told.path === "" ? "inbox" : node.isOfWindow ? "root-folder" : "folder",
    contextValue: told.path === "" ? "unfiled" : "project", // what belongs to no project cannot be forgotten at once
    shape: node.isOfWindow ? "expanded" : "collapsed",
    tooltip: `${where}\n\n${count(told.sessions, "session")}, ${count(told.exchanges, "exchange")}${agents}`,
  };
}

/** The last name with the directory that it is in: `work/atlas`. */
function lastNames(path: string): string {
  return path
    .split(/[\\/]/)
    .filter((one) => one !== "")
    .slice(-2)
    .join("/");
}

function lookOfSession(node: SessionNode, now: Date): NodeLook {
  const { told } = node;
  const mark = told.relation === "subagent" ? "sub-agent" : told.relation === "fork" ? "fork" : "";
  const when = told.endedAt ?? told.startedAt;
  const facts = [agentName(told.agent), dateAndTime(told.startedAt) || "no date", count(told.exchanges, "exchange"), mark].filter(Boolean);
  return {
    id: `session:${node.owner}:${told.agent}:${told.sessionId}`,
    label: sessionTitle(told.title),
    description: [ago(when, now), mark].filter(Boolean).join(" · "),
    icon: told.relation === "subagent" ? "type-hierarchy-sub" : agentIcon(told.agent),
    contextValue: "session",
    shape: "collapsed",
    tooltip: `**${plainMarkdown(sessionTitle(told.title))}**\n\n${plainMarkdown(facts.join(" · "))}`,
  };
}

function lookOfExchange({ owner, told }: ExchangeNode): NodeLook {
  return {
    id: `exchange:${owner}:${told.sessionId}:${told.exchangeId}`,
    label: exchangeTitle(told),
    description: [timeOfDay(told.startedAt), told.isSuperseded ? "taken back" : ""].filter(Boolean).join(" · "),
    icon: told.agent === NOTE ? agentIcon(NOTE) : "comment",
    contextValue: "exchange",
    shape: "leaf",
    tooltip: "", // resolved when it is asked for
  };
}
