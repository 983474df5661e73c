/** The chat's tool that recalls. */

import * as vscode from "vscode";

import { isCancelled } from "../core/errors";
import { answer, whileSearching } from "../core/recallTool";
import type { NewerVscode, Tool } from "./newerVscode";
import type { Parts } from "./parts";

/** Made only where the editor has tools: chat.ts asks for it nowhere else. */
export function chatTool(parts: Parts): Tool {
  return {
    prepareInvocation: ({ input }) => Promise.resolve({ invocationMessage: whileSearching(input) }),
    invoke: async ({ input, tokenizationOptions: room }, token) => {
      const { LanguageModelToolResult: Result, LanguageModelTextPart: Text } = vscode as unknown as Required<NewerVscode>;
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
  };
}
