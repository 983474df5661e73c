/** What newer versions of VS Code add to the fake one: language model tools and MCP servers. Import it first. */

import { api, Disposable } from "./fakeVscode";

import type { McpServerProvider, Tool } from "../../../src/ui/newerVscode";

export class LanguageModelTextPart {
  constructor(readonly value: string) {}
}

export class LanguageModelToolResult {
  constructor(readonly content: readonly LanguageModelTextPart[]) {}
}

export class McpStdioServerDefinition {
  cwd: unknown;
  constructor(
    readonly label: string,
    readonly command: string,
    readonly args: readonly string[],
    readonly env: Readonly<Record<string, string>>,
    readonly version: string,
  ) {}
}

export class CancellationError extends Error {}

/** What was registered, and whether the version refuses since the interface is still a proposal there. */
export const newer = {
  tools: new Map<string, Tool>(),
  providers: new Map<string, McpServerProvider>(),
  isProposal: false,
};

function registering<T>(known: Map<string, T>): (name: string, given: T) => Disposable {
  return (name, given) => {
    if (newer.isProposal) throw new Error("CANNOT use API proposal");
    known.set(name, given);
    return new Disposable(() => known.delete(name));
  };
}

Object.assign(api, {
  CancellationError,
  LanguageModelTextPart,
  LanguageModelToolResult,
  McpStdioServerDefinition,
  lm: { registerTool: registering(newer.tools), registerMcpServerDefinitionProvider: registering(newer.providers) },
});
