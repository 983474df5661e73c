/** Forgetting: always first a list of what would go, then a last question, and only then for good. */

import * as vscode from "vscode";

import { agentName } from "../core/agents";
import { finalSelector, forgotWords, itemFacts, itemTitle, lastQuestion, selectorOf, type Target } from "../core/forgetText";
import type { ForgetParams, ForgetResult, WireForgetItem } from "../core/protocol";
import { sessionsOf } from "../core/sessionAnswers";
import { sessionTitle } from "../core/sessionTree";
import { ago, count, lastName, number, plainLabel } from "../core/wording";
import { idIn } from "./exchanges";
import type { Parts } from "./parts";
import { complain } from "./telling";
import { windowProjects } from "./windowProjects";

interface Choice<T> extends vscode.QuickPickItem {
  readonly value: T;
}

const PROJECTS_MOST = 1_000;

/** `palace.forget`: asks what, by one of the selectors that a person can name. */
export async function forget(parts: Parts): Promise<void> {
  try {
    const selector = await askSelector(parts);
    if (selector) await forgetBy(parts, selector);
  } catch (error) {
    complain(error);
  }
}

/** `palace.forgetItem`: an element of the tree, a row of a pick, or the exchange's document. */
export async function forgetItem(parts: Parts, given: unknown): Promise<void> {
  try {
    const selector = selectorOf(targetOf(given));
    if (selector) await forgetBy(parts, selector);
    else void vscode.window.showInformationMessage("Palace: nothing is chosen. Open an exchange, or choose one in the view Recent Sessions.");
  } catch (error) {
    complain(error);
  }
}

function targetOf(given: unknown): Target {
  const uri = given instanceof vscode.Uri || given === undefined ? (given ?? vscode.window.activeTextEditor?.document.uri) : undefined;
  if (uri) return { exchangeId: idIn(uri) ?? "" };
  return typeof given === "object" && given !== null ? given : {};
}

async function forgetBy(parts: Parts, asked: ForgetParams): Promise<void> {
  const listed = await parts.palace.request("palace/forget", { ...asked, dryRun: true });
  if (listed.exchanges === 0) {
    void vscode.window.showInformationMessage("Palace: nothing matches, so nothing was forgotten.");
    return;
  }
  const kept = await chooseItems(listed);
  if (!kept || kept.length === 0) return;
  const isWhole = listed.exchanges === listed.items.length;
  const { question, detail } = lastQuestion(isWhole ? kept.length : listed.exchanges, kept, listed.sourcesPending);
  if ((await vscode.window.showWarningMessage(question, { modal: true, detail }, "Forget")) !== "Forget") return;
  const done = await vscode.window.withProgress({ location: vscode.ProgressLocation.Window, title: "Palace: forgetting" }, () =>
    parts.palace.request("palace/forget", finalSelector(asked, listed, kept)),
  );
  void vscode.commands.executeCommand("palace.refreshSessions");
  if (done.wipeDue || done.sourcesPending) void vscode.window.showWarningMessage(forgotWords(done));
  else void vscode.window.showInformationMessage(forgotWords(done));
}

/** Shows what would go, all ticked; of a list that the daemon cut nothing can be unticked. Undefined: dismissed. */
async function chooseItems(listed: ForgetResult): Promise<readonly WireForgetItem[] | undefined> {
  if (listed.exchanges === 1) return listed.items; // the last question names it
  const isWhole = listed.exchanges === listed.items.length;
  const rows = listed.items.map((value): Choice<WireForgetItem> => {
    return { label: plainLabel(itemTitle(value)), detail: plainLabel(itemFacts(value)), picked: true, value };
  });
  if (!isWhole) {
    const title = `Palace would forget ${count(listed.exchanges, "exchange")}; the first ${number(rows.length)} are listed`;
    const go: Choice<WireForgetItem | undefined> = { label: `$(trash) Forget all ${count(listed.exchanges, "exchange")}…`, value: undefined };
    const chosen = await vscode.window.showQuickPick<Choice<WireForgetItem | undefined>>([go, ...rows], { title, matchOnDetail: true });
    return chosen === go ? listed.items : undefined;
  }
  const title = `Palace would forget ${count(listed.exchanges, "exchange")}`;
  const chosen = await vscode.window.showQuickPick(rows, {
    title,
    placeHolder: "Untick what is to stay; the next step asks once more",
    canPickMany: true,
    matchOnDetail: true,
  });
  return chosen?.map((one) => one.value);
}

async function askSelector(parts: Parts): Promise<ForgetParams | undefined> {
  const [ours] = windowProjects();
  const ways: Choice<() => Promise<ForgetParams | undefined>>[] = [
    { label: "$(search) What a question finds…", description: "up to ten exchanges, of which you choose", value: askQuery },
    { label: "$(comment-discussion) A session…", description: "with the sub-agents that it started", value: () => askSession(parts) },
    ...(ours === undefined ? [] : [{ label: `$(root-folder) This project: ${plainLabel(lastName(ours))}`, value: () => Promise.resolve({ project: ours }) }]),
    { label: "$(folder) A project…", value: () => askProject(parts) },
    { label: "$(file) A transcript file…", value: () => askFile(parts) },
  ];
  const way = await vscode.window.showQuickPick(ways, { title: "Palace: what is to be forgotten?", placeHolder: "You see a list before anything goes" });
  return await way?.value();
}

async function askQuery(): Promise<ForgetParams | undefined> {
  const typed = await vscode.window.showInputBox({ title: "Palace: forget what a question finds", prompt: "As in Recall, for instance: the password of the test server" });
  const query = typed?.trim();
  return query ? { query, limit: 10 } : undefined;
}

async function askSession(parts: Parts): Promise<ForgetParams | undefined> {
  const listing = parts.palace.request("palace/sessions", { limit: parts.settings().sessionsLimit }).then(sessionsOf);
  return await choose(listing, "Which session?", (one) => ({
    label: plainLabel(sessionTitle(one.title)),
    description: plainLabel([one.project === "" ? "" : lastName(one.project), ago(one.endedAt ?? one.startedAt, new Date())].filter(Boolean).join(" · ")),
    detail: plainLabel(`${agentName(one.agent)} · ${count(one.exchanges, "exchange")}`),
    value: { sessions: [one.sessionId] },
  }));
}

async function askProject(parts: Parts): Promise<ForgetParams | undefined> {
  const listing = parts.palace.request("palace/projects", { limit: PROJECTS_MOST }).then(({ projects }) => projects.filter((one) => one.path !== ""));
  return await choose(listing, "Which project?", (one) => ({
    label: plainLabel(one.name),
    description: plainLabel(one.path),
    detail: `${count(one.sessions, "session")}, ${count(one.exchanges, "exchange")}`,
    value: { project: one.path },
  }));
}

async function askFile(parts: Parts): Promise<ForgetParams | undefined> {
  const listing = parts.palace.request("palace/sources", {}).then(({ sources }) => sources.filter((one) => one.exchanges > 0));
  return await choose(listing, "Which transcript file?", (one) => ({
    label: plainLabel(lastName(one.path)),
    description: plainLabel(`${agentName(one.agent)} · ${count(one.exchanges, "exchange")}`),
    detail: plainLabel(one.path),
    value: { source: one.path },
  }));
}

async function choose<T>(listing: Promise<readonly T[]>, title: string, row: (one: T) => Choice<ForgetParams>): Promise<ForgetParams | undefined> {
  const rows = (await listing).map(row);
  if (rows.length === 0) {
    void vscode.window.showInformationMessage("Palace holds nothing of the kind yet.");
    return undefined;
  }
  const chosen = await vscode.window.showQuickPick(rows, { title: `Palace: forget. ${title}`, matchOnDescription: true, matchOnDetail: true });
  return chosen?.value;
}
