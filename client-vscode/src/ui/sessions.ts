/** The view of recent sessions. */

import * as vscode from "vscode";

import type { Params } from "../core/connection";
import { inWords, isCancelled } from "../core/errors";
import type { State } from "../core/palace";
import type { WireSession } from "../core/protocol";
import { exchangesOf, sessionsOf } from "../core/sessionAnswers";
import {
  exchangeNodes,
  look,
  PROJECTS_PAGE,
  preview,
  projectNodes,
  sessionNodes,
  type AutomatedNode,
  type ProjectNode,
  type SessionNode,
  type TreeNode,
} from "../core/sessionTree";
import type { Parts } from "./parts";
import { windowProjects } from "./windowProjects";

/** A live session is mined with each turn; the view follows without flickering. */
const REFRESH_DELAY_MS = 2_000;
/** Pages that are looked through for sessions of no project, which the daemon cannot be asked for. */
const UNFILED_PAGES_MOST = 10;

export function registerSessions(parts: Parts): vscode.Disposable {
  const tree = new SessionTree(parts);
  const view = vscode.window.createTreeView("palace.sessions", { treeDataProvider: tree, showCollapseAll: true });
  tree.showMessagesIn(view);
  return vscode.Disposable.from(
    tree,
    view,
    parts.command("palace.refreshSessions", () => {
      tree.refresh();
    }),
    vscode.commands.registerCommand("palace.moreSessions", (node: TreeNode) => {
      tree.more(node);
    }),
  );
}

/** Lists what the daemon tells when a node is expanded; keeps only how far each list was asked for. */
export class SessionTree implements vscode.TreeDataProvider<TreeNode>, vscode.Disposable {
  readonly #changed = new vscode.EventEmitter<undefined>();
  readonly onDidChangeTreeData = this.#changed.event;
  readonly #listening: vscode.Disposable;
  /** How many times More was chosen: by project, and for the projects under undefined. */
  readonly #pages = new Map<string | undefined, number>();
  #refreshTimer: NodeJS.Timeout | undefined;
  #isEmpty = true;
  #roots: TreeNode[] = [];
  #isReading = false;
  /** Why the latest question was not answered; empty where it was. */
  #error = "";
  #view: { message?: string } | undefined;

  constructor(private readonly parts: Parts) {
    const { palace } = parts;
    this.#listening = vscode.Disposable.from(
      palace.onDidChangeState((state) => {
        this.#onState(state);
      }),
      palace.on("palace/didMine", () => {
        this.#refreshSoon();
      }),
      palace.on("palace/didChangeStatus", (status) => {
        this.#isReading = status.sourcesPending > 0;
        this.#say();
      }),
      vscode.workspace.onDidChangeConfiguration((change) => {
        if (change.affectsConfiguration("palace.sessions")) this.refresh();
      }),
      vscode.workspace.onDidChangeWorkspaceFolders(() => {
        this.refresh();
      }),
    );
  }

  /** Says above the tree what is going on where the tree itself cannot. */
  showMessagesIn(view: { message?: string }): void {
    this.#view = view;
    this.#say();
  }

  dispose(): void {
    clearTimeout(this.#refreshTimer);
    this.#listening.dispose();
    this.#changed.dispose();
  }

  /** Asks anew for what is expanded. */
  refresh(): void {
    clearTimeout(this.#refreshTimer);
    this.#refreshTimer = undefined;
    this.#changed.fire(undefined);
  }

  /** Lists a page more where `node` stands. */
  more(node: TreeNode): void {
    if (node.kind !== "more") return;
    this.#pages.set(node.of, (this.#pages.get(node.of) ?? 1) + 1);
    this.refresh();
  }

  #refreshSoon(): void {
    this.#refreshTimer ??= setTimeout(() => {
      this.refresh();
    }, REFRESH_DELAY_MS);
  }

  #onState(state: State): void {
    this.#say();
    // What was listed stays while the daemon is reached again; where only a person can bring it back, the welcome text says how.
    if (this.#isEmpty || !isComing(state)) this.refresh();
  }

  #say(): void {
    if (this.#view) this.#view.message = this.#message();
  }

  /** Empty words show nothing. */
  #message(): string {
    const { kind } = this.parts.palace.state;
    if (kind === "connecting" || kind === "starting") return "Looking for the daemon…";
    if (kind === "waiting") return "The daemon was lost. It is tried again.";
    if (kind !== "ready") return ""; // the welcome text tells
    return this.#error || (this.#isEmpty && this.#isReading ? "Reading transcripts…" : "");
  }

  getTreeItem(node: TreeNode): vscode.TreeItem {
    const { id, label, description, icon, contextValue, shape, tooltip } = look(node, new Date());
    const { None, Collapsed, Expanded } = vscode.TreeItemCollapsibleState;
    const item = new vscode.TreeItem(label, { leaf: None, collapsed: Collapsed, expanded: Expanded }[shape]);
    Object.assign(item, { id, description, contextValue, iconPath: new vscode.ThemeIcon(icon) });
    if (tooltip) item.tooltip = untrusted(tooltip);
    if (node.kind === "exchange") item.command = { command: "palace.openExchange", title: "Open Exchange", arguments: [node] };
    if (node.kind === "more") item.command = { command: "palace.moreSessions", title: "More", arguments: [node] };
    return item;
  }

  resolveTreeItem(item: vscode.TreeItem, node: TreeNode): vscode.TreeItem {
    if (node.kind === "exchange") item.tooltip = untrusted(preview(node.told));
    return item;
  }

  async getChildren(node?: TreeNode): Promise<TreeNode[]> {
    const { state } = this.parts.palace;
    if (state.kind !== "ready") return !node && isComing(state) ? this.#roots : [];
    try {
      const found = await this.#children(node);
      this.#error = "";
      if (!node) this.#roots = found;
      return found;
    } catch (error) {
      if (!isCancelled(error)) {
        this.parts.log.warn(`the sessions cannot be listed: ${inWords(error)}`);
        this.#error = inWords(error);
      }
      return node ? [] : this.#roots; // an empty tree would say that there are no sessions
    } finally {
      this.#say();
    }
  }

  async #children(node: TreeNode | undefined): Promise<TreeNode[]> {
    switch (node?.kind) {
      case undefined:
        return await this.#projects();
      case "project":
        return await this.#sessions(node);
      case "session":
        return await this.#exchanges(node);
      case "automated":
        return [...node.below];
      case "exchange":
      case "more":
      case "empty":
        return [];
    }
  }

  async #projects(): Promise<TreeNode[]> {
    const limit = PROJECTS_PAGE * (this.#pages.get(undefined) ?? 1);
    const { projects } = await this.parts.palace.request("palace/projects", { limit: limit + 1 });
    this.#isEmpty = projects.length === 0;
    const nodes: TreeNode[] = projectNodes(projects.slice(0, limit), windowProjects());
    return projects.length > limit ? [...nodes, { kind: "more", of: undefined }] : nodes;
  }

  async #sessions({ project }: ProjectNode): Promise<TreeNode[]> {
    const limit = this.parts.settings().sessionsLimit * (this.#pages.get(project) ?? 1);
    const found = project === "" ? await this.#unfiled(limit + 1) : await this.#list({ project, limit: limit + 1 });
    if (found.length === 0) return [{ kind: "empty", owner: project }];
    const nodes: (SessionNode | AutomatedNode)[] = sessionNodes(found.slice(0, limit), project);
    return found.length > limit ? [...nodes, { kind: "more", of: project }] : nodes;
  }

  async #list(params: Params<"palace/sessions">): Promise<readonly WireSession[]> {
    return sessionsOf(await this.parts.palace.request("palace/sessions", params));
  }

  async #unfiled(wanted: number): Promise<WireSession[]> {
    const found: WireSession[] = [];
    const limit = 1000;
    for (let page = 0; page < UNFILED_PAGES_MOST && found.length < wanted; page += 1) {
      const listed = await this.#list({ limit, offset: page * limit });
      found.push(...listed.filter((one) => one.project === ""));
      if (listed.length < limit) break;
    }
    return found.slice(0, wanted);
  }

  async #exchanges({ sessionId, owner, below }: SessionNode): Promise<TreeNode[]> {
    const exchanges = exchangesOf(await this.parts.palace.request("palace/sessions", { sessionId }));
    return [...exchangeNodes(exchanges, owner), ...below];
  }
}

/** Whether the daemon is on its way without a person. */
function isComing({ kind }: State): boolean {
  return kind === "connecting" || kind === "starting" || kind === "waiting";
}

/** Markdown that runs no command and shows no HTML, whatever a transcript holds. */
function untrusted(markdown: string): vscode.MarkdownString {
  const made = new vscode.MarkdownString(markdown);
  made.isTrusted = false;
  made.supportHtml = false;
  return made;
}
