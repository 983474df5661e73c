/** What the editor's chat is given: a tool that recalls, and Palace's MCP server. What answers is loaded when it is asked. */

import * as vscode from "vscode";

import type { McpServerProvider, NewerVscode, Tool } from "./newerVscode";

const TOOL = "palace_recall";
const PROVIDER = "palace.mcp";

/** What answers the chat. */
export interface Answering {
  readonly tool: () => Promise<Tool>;
  /** Undefined where this version of VS Code has no such servers; asked nowhere else. */
  readonly servers: () => Promise<McpServerProvider | undefined>;
}

/** Registers both where this version of VS Code has them; elsewhere nothing happens. */
export function registerChat(log: vscode.LogOutputChannel, answering: Answering): vscode.Disposable {
  return vscode.Disposable.from(registerTool(log, answering), registerMcpServer(log, answering));
}

function registerTool(log: vscode.LogOutputChannel, { tool }: Answering): vscode.Disposable {
  const { lm, LanguageModelToolResult, LanguageModelTextPart } = vscode as unknown as NewerVscode;
  if (!lm?.registerTool || !LanguageModelToolResult || !LanguageModelTextPart) return nothing(log, "language model tools");
  try {
    return lm.registerTool(TOOL, {
      prepareInvocation: async (preparation) => await (await tool()).prepareInvocation(preparation),
      invoke: async (invocation, token) => await (await tool()).invoke(invocation, token),
    });
  } catch (error) {
    return nothing(log, "language model tools", error);
  }
}

function registerMcpServer(log: vscode.LogOutputChannel, { servers }: Answering): vscode.Disposable {
  const { lm, McpStdioServerDefinition } = vscode as unknown as NewerVscode;
  if (!lm?.registerMcpServerDefinitionProvider || !McpStdioServerDefinition) return nothing(log, "MCP servers of extensions");
  const changed = new vscode.EventEmitter<void>();
  let listening: vscode.Disposable | undefined;
  const ending = vscode.Disposable.from(changed, new vscode.Disposable(() => listening?.dispose() as unknown));
  const provider: McpServerProvider = {
    onDidChangeMcpServerDefinitions: changed.event,
    provideMcpServerDefinitions: async () => (await (await servers())?.provideMcpServerDefinitions()) ?? [],
    resolveMcpServerDefinition: async (server) => await (await servers())?.resolveMcpServerDefinition(server),
  };
  try {
    const registered = lm.registerMcpServerDefinitionProvider(PROVIDER, provider);
    servers().then(
      (loaded) => {
        listening = loaded?.onDidChangeMcpServerDefinitions(() => {
          changed.fire();
        });
      },
      () => undefined, // who begins to look for the daemon tells it
    );
    return vscode.Disposable.from(registered, ending);
  } catch (error) {
    ending.dispose();
    return nothing(log, "MCP servers of extensions", error);
  }
}

function nothing(log: vscode.LogOutputChannel, what: string, error?: unknown): vscode.Disposable {
  const reason = error instanceof Error ? ` (${error.message})` : "";
  log.debug(`This version of VS Code has no ${what}${reason}.`);
  return vscode.Disposable.from();
}
