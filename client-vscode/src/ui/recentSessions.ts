/** Recent sessions as a quick pick, then the exchanges of one. */

import * as vscode from "vscode";

import { agentIcon, agentName } from "../core/agents";
import type { WireExchange, WireSession } from "../core/protocol";
import { exchangesOf, sessionsOf } from "../core/sessionAnswers";
import { exchangeTitle, sessionTitle } from "../core/sessionTree";
import { count, dayHeading, firstLine, lastName, plainLabel, timeOfDay } from "../core/wording";
import type { Parts } from "./parts";
import { complain, keepOrder } from "./telling";

interface SessionItem extends vscode.QuickPickItem {
  readonly session?: WireSession;
}

interface ExchangeItem extends vscode.QuickPickItem {
  readonly exchange?: WireExchange;
}

const OPEN_LAST: vscode.QuickInputButton = { iconPath: new vscode.ThemeIcon("go-to-file"), tooltip: "Open the last exchange" };
const FORGET: vscode.QuickInputButton = { iconPath: new vscode.ThemeIcon("trash"), tooltip: "Forget…" };
const TRANSCRIPT: vscode.QuickInputButton = { iconPath: new vscode.ThemeIcon("file-code"), tooltip: "Open transcript at this line" };

/** Registers the command. */
export function registerRecentSessions(parts: Parts): vscode.Disposable {
  return parts.command("palace.recentSessions", () => pickRecent(parts));
}

/** Lists sessions, the newest first by day; Enter shows the exchanges of one. Ends when the person is done. */
async function pickRecent(parts: Parts): Promise<void> {
  const pick = vscode.window.createQuickPick<SessionItem>();
  pick.title = "Recent sessions";
  pick.placeholder = "Type to filter; Enter shows the exchanges of a session";
  pick.matchOnDetail = true;
  keepOrder(pick);
  const asked = new AbortController();
  pick.onDidHide(() => {
    asked.abort();
    pick.dispose();
  });
  pick.onDidAccept(() => {
    const session = pick.selectedItems[0]?.session;
    if (!session) return;
    pick.hide();
    void pickExchange(parts, session);
  });
  pick.onDidTriggerItemButton(({ item, button }) => {
    if (!item.session) return;
    pick.hide();
    if (button === FORGET) void vscode.commands.executeCommand("palace.forgetItem", { sessionId: item.session.sessionId });
    else void openLast(parts, item.session);
  });
  pick.busy = true;
  pick.show();
  try {
    const limit = parts.settings().sessionsLimit;
    const sessions = sessionsOf(await parts.palace.request("palace/sessions", { limit }, { signal: asked.signal }));
    pick.items = sessionItems(sessions, new Date());
    if (sessions.length === 0) pick.placeholder = "No sessions yet. Palace: Show Status tells where it looks.";
  } catch (error) {
    pick.hide();
    complain(error);
  } finally {
    pick.busy = false;
  }
}

/** Rows with a separator for each day, in the order given. */
export function sessionItems(sessions: readonly WireSession[], now: Date): SessionItem[] {
  const items: SessionItem[] = [];
  let day = "";
  for (const session of sessions) {
    const heading = dayHeading(session.endedAt ?? session.startedAt, now);
    if (heading !== day) items.push({ label: heading, kind: vscode.QuickPickItemKind.Separator });
    day = heading;
    const marks = [session.relation === "none" ? "" : session.relation === "subagent" ? "sub-agent" : session.relation, session.isAutomated ? "automated" : ""];
    const where = [session.project === "" ? "no project" : lastName(session.project), timeOfDay(session.endedAt ?? session.startedAt)];
    items.push({
      label: `$(${agentIcon(session.agent)}) ${plainLabel(sessionTitle(session.title))}`,
      // A title fills its line, and the day stands at its end: what else there is to tell has the line below to itself.
      detail: plainLabel([...where, agentName(session.agent), count(session.exchanges, "exchange"), ...marks].filter(Boolean).join(" · ")),
      buttons: [OPEN_LAST, FORGET],
      session,
    });
  }
  return items;
}

async function pickExchange(parts: Parts, session: WireSession): Promise<void> {
  const pick = vscode.window.createQuickPick<ExchangeItem>();
  pick.title = sessionTitle(session.title);
  pick.placeholder = "Exchanges in order: Enter opens one";
  pick.matchOnDetail = true;
  pick.buttons = [vscode.QuickInputButtons.Back];
  keepOrder(pick);
  const asked = new AbortController();
  pick.onDidHide(() => {
    asked.abort();
    pick.dispose();
  });
  pick.onDidTriggerButton(() => {
    pick.hide();
    void pickRecent(parts);
  });
  const run = (command: string, item: ExchangeItem | undefined): void => {
    if (!item?.exchange) return;
    pick.hide();
    void vscode.commands.executeCommand(command, { exchangeId: item.exchange.exchangeId });
  };
  pick.onDidAccept(() => {
    run("palace.openExchange", pick.selectedItems[0]);
  });
  pick.onDidTriggerItemButton(({ item, button }) => {
    run(button === FORGET ? "palace.forgetItem" : "palace.openTranscript", item);
  });
  pick.busy = true;
  pick.show();
  try {
    const { sessionId } = session;
    const exchanges = exchangesOf(await parts.palace.request("palace/sessions", { sessionId }, { signal: asked.signal }));
    pick.items = exchanges.map((exchange) => ({
      label: plainLabel(exchangeTitle(exchange)),
      description: timeOfDay(exchange.startedAt),
      detail: plainLabel(firstLine(exchange.replyText.slice(exchange.replyFinalStart)) || firstLine(exchange.replyText)),
      buttons: [TRANSCRIPT, FORGET],
      exchange,
    }));
  } catch (error) {
    pick.hide();
    complain(error);
  } finally {
    pick.busy = false;
  }
}

async function openLast(parts: Parts, { sessionId }: WireSession): Promise<void> {
  try {
    const last = exchangesOf(await parts.palace.request("palace/sessions", { sessionId })).at(-1);
    if (last) await vscode.commands.executeCommand("palace.openExchange", { exchangeId: last.exchangeId });
  } catch (error) {
    complain(error);
  }
}
