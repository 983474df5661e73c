/**
 * What newer versions of VS Code have and the types of the oldest one that we run on do not: language model tools
 * (1.95) and definitions of MCP servers (1.101).
 *
 * Every member may be absent. One that is there may still refuse: while an interface was a proposal, calling it threw.
 */

import type * as vscode from "vscode";

export interface ToolInvocation {
  /** Checked against the schema by VS Code, which other extensions that call the tool need not have asked. */
  readonly input: unknown;
  readonly tokenizationOptions?: {
    readonly tokenBudget: number;
    countTokens(text: string, token?: vscode.CancellationToken): Thenable<number>;
  };
}

export interface Tool {
  invoke(invocation: ToolInvocation, token: vscode.CancellationToken): Promise<object>;
  prepareInvocation(preparation: { readonly input: unknown }): Promise<{ readonly invocationMessage: string }>;
}

/** A program that speaks MCP on its standard input and output; `env` is added to the editor's. */
export interface McpServer {
  readonly label: string;
  cwd?: vscode.Uri;
  command: string;
  args: string[];
  env: Record<string, string | number | null>;
  version?: string;
}

export interface McpServerProvider {
  readonly onDidChangeMcpServerDefinitions: vscode.Event<void>;
  provideMcpServerDefinitions(): Promise<McpServer[]>;
  resolveMcpServerDefinition(server: McpServer): Promise<McpServer | undefined>;
}

/** Makes the definition of a server that is a program. */
export type MakeServer = new (
  label: string,
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  version: string,
) => McpServer;

/** The editor as it may be: `vscode as unknown as NewerVscode`, since the types of 1.90 know nothing of it. */
export interface NewerVscode {
  readonly lm?: {
    registerTool?(name: string, tool: Tool): vscode.Disposable;
    registerMcpServerDefinitionProvider?(id: string, provider: McpServerProvider): vscode.Disposable;
  };
  readonly LanguageModelToolResult?: new (content: readonly object[]) => object;
  readonly LanguageModelTextPart?: new (text: string) => object;
  readonly McpStdioServerDefinition?: MakeServer;
}
