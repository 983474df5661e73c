/** Show Status: what the daemon tells in plain words, with what a person can do about it. */

import * as vscode from "vscode";

import type { StatusResult } from "../core/protocol";
import { statusDocument, statusSections } from "../core/statusText";
import { plainLabel } from "../core/wording";
import type { Parts } from "./parts";
import { complain, keepOrder } from "./telling";

const SCHEME = "palace-status";
/** The file's name is what the tab shows. */
const REPORT = vscode.Uri.from({ scheme: SCHEME, path: "/Palace status.md" });

interface Item extends vscode.QuickPickItem {
  readonly run?: () => unknown;
}

export function registerStatusReport(parts: Parts, latest: () => StatusResult | undefined): vscode.Disposable {
  const changed = new vscode.EventEmitter<vscode.Uri>();
  let text = "";
  const openReport = async (status: StatusResult): Promise<void> => {
    const now = new Date();
    text = statusDocument(statusSections(status, now), now);
    changed.fire(REPORT);
    await vscode.commands.executeCommand("markdown.showPreview", REPORT);
  };
  const provider = { onDidChange: changed.event, provideTextDocumentContent: () => text };
  return vscode.Disposable.from(
    changed,
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, provider),
    parts.command("palace.showStatus", async () => {
      try {
        await showStatus(parts, latest, openReport);
      } catch (error) {
        complain(error);
      }
    }),
  );
}

/** A pick that follows the daemon while it is open. Without a daemon it has what brings one. */
async function showStatus(parts: Parts, latest: () => StatusResult | undefined, openReport: (status: StatusResult) => Promise<void>): Promise<void> {
  const pick = vscode.window.createQuickPick<Item>();
  pick.title = "Palace: status";
  pick.placeholder = "Choose what to do, or type to find a line";
  pick.matchOnDescription = pick.matchOnDetail = true;
  keepOrder(pick);
  const show = (status: StatusResult | undefined): void => {
    const active = pick.activeItems[0]?.label;
    pick.keepScrollPosition = true;
    pick.items = items(parts, status, openReport);
    const again = pick.items.find((one) => one.label === active);
    if (again) pick.activeItems = [again];
  };
  const listening = [
    parts.palace.on("palace/didChangeStatus", show),
    parts.palace.onDidChangeState(() => {
      show(latest());
    }),
  ];
  pick.onDidHide(() => {
    for (const one of listening) one.dispose();
    pick.dispose();
  });
  pick.onDidAccept(() => {
    const run = pick.selectedItems[0]?.run;
    if (!run) return;
    pick.hide();
    Promise.resolve(run()).catch(complain);
  });
  show(latest());
  pick.show();
  if (parts.palace.state.kind === "ready") show(await parts.palace.request("palace/status", {})); // memory and sizes are told by nobody else
}

function items(parts: Parts, status: StatusResult | undefined, openReport: (status: StatusResult) => Promise<void>): Item[] {
  const command = (icon: string, label: string, name: string): Item => ({
    label: `$(${icon}) ${label}`,
    run: () => vscode.commands.executeCommand(name),
  });
  const logs = command("output", "Show Logs", "palace.showLogs");
  const restart = command("debug-restart", "Restart Daemon", "palace.restartDaemon");
  const { state } = parts.palace;
  if (state.kind !== "ready" || !status) {
    const told = ("reason" in state ? state.reason : undefined) ?? (state.kind === "off" ? "The daemon is off" : "Looking for the daemon");
    const install = state.kind === "missing" ? [command("cloud-download", "Install the Daemon…", "palace.installDaemon")] : [];
    const hint = "hint" in state ? { detail: plainLabel(state.hint) } : {};
    return [{ label: `$(info) ${plainLabel(told)}`, ...hint }, separator("Actions"), ...install, restart, logs];
  }
  const pause = status.embedding.isPaused ? command("play", "Resume Mining", "palace.resume") : command("debug-pause", "Pause Mining", "palace.pause");
  const rows = statusSections(status, new Date()).flatMap(({ title, rows: told }) => [
    separator(title),
    ...told.map(({ label, value }): Item => {
      return value.length > 60 ? { label: plainLabel(label), detail: plainLabel(value) } : { label: plainLabel(label), description: plainLabel(value) };
    }),
  ]);
  return [
    { label: "$(open-preview) Open as a Document", run: () => openReport(status) },
    command("sync", "Mine Now", "palace.mineNow"),
    pause,
    command("plug", "Connect an Agent…", "palace.connectAgent"),
    restart,
    logs,
    ...rows,
  ];
}

function separator(label: string): Item {
  return { label, kind: vscode.QuickPickItemKind.Separator };
}
