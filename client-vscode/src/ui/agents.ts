/** The command Connect an Agent: shows who is connected, what would change, and changes it only then. */

import * as vscode from "vscode";

import { type Agent, type Changes, ConnectCommand, differences, filesInWords, isNothing, nameOf, stateInWords } from "../core/agentList";
import { inWords, isCancelled, PalaceError } from "../core/errors";
import type { Parts } from "./parts";

const SCHEME = "palace-settings";
const SHOW = "Show the Changes";

export function registerAgents(parts: Parts): vscode.Disposable {
  const preview = new Preview();
  return vscode.Disposable.from(
    preview,
    parts.command("palace.connectAgent", () => telling(parts, () => connectAgent(parts, preview))),
  );
}

interface AgentItem extends vscode.QuickPickItem {
  readonly agent?: Agent;
}

async function connectAgent(parts: Parts, preview: Preview): Promise<void> {
  const command = parts.commandLine().then((line) => new ConnectCommand(line, parts.settings().dataDirectory !== ""));
  const items = command.then((connect) => connect.agents()).then(itemsOf);
  const chosen = await vscode.window.showQuickPick(items, {
    title: "Connect an Agent to Palace",
    placeHolder: "An agent that is connected asks Palace by itself; choose one to see what would change",
    matchOnDescription: true,
  });
  if (!chosen?.agent) return;
  await new Change(parts, preview, await command, chosen.agent).offer(chosen.agent.state === "connected");
}

/** Those that are here first: the list is short, and a person looks for one of them. */
function itemsOf(agents: readonly Agent[]): AgentItem[] {
  const rows = (isFound: boolean): AgentItem[] =>
    agents
      .filter((agent) => agent.isFound === isFound)
      .map((agent) => ({
        label: nameOf(agent.agent),
        description: stateInWords(agent),
        iconPath: new vscode.ThemeIcon(agent.state === "connected" ? "pass-filled" : agent.state === "absent" ? "circle-outline" : "warning"),
        agent,
      }));
  const heading = (label: string): AgentItem => ({ label, kind: vscode.QuickPickItemKind.Separator });
  const [here, elsewhere] = [rows(true), rows(false)];
  return [
    ...(here.length > 0 ? [heading("On this machine"), ...here] : []),
    ...(elsewhere.length > 0 ? [heading("Not found on this machine"), ...elsewhere] : []),
  ];
}

/** One agent's settings, changed at a person's word. */
class Change {
  readonly #name: string;

  constructor(
    private readonly parts: Parts,
    private readonly preview: Preview,
    private readonly command: ConnectCommand,
    private readonly agent: Agent,
  ) {
    this.#name = nameOf(agent.agent);
  }

  /** Shows what would change, and does it if the person agrees. */
  async offer(isRemoval: boolean): Promise<void> {
    const changes = await this.command.change(this.agent.agent, { isRemoval, isDryRun: true });
    if (isNothing(changes)) {
      void vscode.window.showInformationMessage(`${this.#name} is as it should be: nothing to change.`);
      return;
    }
    if (await this.#agreed(changes, isRemoval)) await this.#run(isRemoval);
  }

  async #agreed(changes: Changes, isRemoval: boolean): Promise<boolean> {
    const question = isRemoval ? `Disconnect ${this.#name} from Palace?` : `Connect ${this.#name} to Palace?`;
    const go = isRemoval ? "Disconnect" : "Connect";
    const isPartly = this.agent.state === "differs" && !isRemoval;
    const detail = [
      ...(isPartly ? ["It is connected in part, or by another installation of Palace."] : []),
      filesInWords(changes),
      ...(isRemoval ? [] : ["Everything else in these files stays, and a copy of what was there is kept beside it."]),
    ].join("\n\n");
    const buttons = [go, SHOW, ...(isPartly ? ["Disconnect"] : [])];
    const answer = await vscode.window.showInformationMessage(question, { modal: true, detail }, ...buttons);
    if (answer === "Disconnect" && isPartly) {
      await this.offer(true);
      return false;
    }
    if (answer !== SHOW) return answer === go;
    await this.preview.show(this.#name, differences(changes));
    return (await vscode.window.showInformationMessage(question, go)) === go;
  }

  async #run(isRemoval: boolean): Promise<void> {
    const { advice } = await this.command.change(this.agent.agent, { isRemoval, isDryRun: false });
    this.parts.log.info(`${this.#name} was ${isRemoval ? "disconnected" : "connected"}.`);
    if (isRemoval) {
      void vscode.window.showInformationMessage(`${this.#name} is not connected to Palace any more.`);
      return;
    }
    const undo = this.agent.state === "absent" ? "Undo" : "Disconnect";
    const next = advice.map((one) => inWords(new Error(one)));
    const answer = await vscode.window.showInformationMessage([`${this.#name} is connected to Palace.`, ...next].join(" "), undo);
    if (answer === undo) await this.#run(true);
  }
}

/** A document that only shows the differences; nothing of it is written anywhere. */
class Preview implements vscode.TextDocumentContentProvider, vscode.Disposable {
  readonly #changed = new vscode.EventEmitter<vscode.Uri>();
  readonly #texts = new Map<string, string>();
  readonly #registered = vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);
  readonly onDidChange = this.#changed.event;

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.#texts.get(uri.path) ?? "";
  }

  async show(name: string, text: string): Promise<void> {
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/Settings of ${name}.diff` });
    this.#texts.set(uri.path, text);
    this.#changed.fire(uri);
    const document = await vscode.workspace.openTextDocument(uri);
    await vscode.window.showTextDocument(document, { preview: true });
  }

  dispose(): void {
    this.#registered.dispose();
    this.#changed.dispose();
    this.#texts.clear();
  }
}

async function telling(parts: Parts, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (isCancelled(error)) return;
    const words = inWords(error);
    parts.log.error(`Connect an Agent: ${words}`);
    const isMissing = error instanceof PalaceError && (error.kind === "missing" || error.kind === "notRunning");
    const [button, command] = isMissing ? ["Install the Daemon…", "palace.installDaemon"] : ["Show Logs", "palace.showLogs"];
    if ((await vscode.window.showErrorMessage(words, button)) === button) await vscode.commands.executeCommand(command);
  }
}
