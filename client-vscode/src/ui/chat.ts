/** What the editor's chat is given: a tool that recalls, and Palace's MCP server. */

import * as vscode from "vscode";

import { isCancelled } from "../core/errors";
import { answer, whileSearching } from "../core/recallTool";
import { McpOffer } from "./mcpOffer";
import { newerVscode } from "./newerVscode";
import type { Parts } from "./parts";

const TOOL = "palace_recall";
const PROVIDER = "palace.mcp";

/** Registers both where this version of VS Code has them; elsewhere nothing happens. */
export function registerChat(parts: Parts): vscode.Disposable {
  return vscode.Disposable.from(registerTool(parts), registerMcpServer(parts));
}

function registerTool(parts: Parts): vscode.Disposable {
  const { lm, LanguageModelToolResult: Result, LanguageModelTextPart: Text } = newerVscode();
  if (!lm?.registerTool || !Result || !Text) return nothing(parts, "language model tools");
  try {
    return lm.registerTool(TOOL, {
      prepareInvocation: ({ input }) => ({ invocationMessage: whileSearching(input) }),
      invoke: async ({ input, tokenizationOptions: room }, token) => {
        const withdrawal = new AbortController();
        const withdraw = (): void => {
          withdrawal.abort();
        };
        if (token.isCancellationRequested) withdraw();
        const listening = token.onCancellationRequested(withdraw);
        try {
          const text = await answer(parts.palace, input, {
            signal: withdrawal.signal,
            now: new Date(),
            room: room && {
              tokenBudget: room.tokenBudget,
              countTokens: (counted: string) => room.countTokens(counted, token),
            },
          });
          return new Result([new Text(text)]);
        } catch (error) {
          if (isCancelled(error)) throw new vscode.CancellationError();
          throw error;
        } finally {
          listening.dispose();
        }
      },
    });
  } catch (error) {
    return nothing(parts, "language model tools", error);
  }
}

function registerMcpServer(parts: Parts): vscode.Disposable {
  const { lm, McpStdioServerDefinition } = newerVscode();
  if (!lm?.registerMcpServerDefinitionProvider || !McpStdioServerDefinition) return nothing(parts, "MCP servers of extensions");
  const offer = new McpOffer(parts, McpStdioServerDefinition);
  try {
    return vscode.Disposable.from(offer, lm.registerMcpServerDefinitionProvider(PROVIDER, offer));
  } catch (error) {
    offer.dispose();
    return nothing(parts, "MCP servers of extensions", error);
  }
}

function nothing(parts: Parts, what: string, error?: unknown): vscode.Disposable {
  const reason = error instanceof Error ? ` (${error.message})` : "";
  parts.log.debug(`This version of VS Code has no ${what}${reason}.`);
  return vscode.Disposable.from();
}
