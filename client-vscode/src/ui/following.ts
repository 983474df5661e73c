/** What shows the daemon for as long as the window is open: the status bar, the view of sessions, and the chat's MCP server. */

import * as vscode from "vscode";

import type { Disposable } from "../core/palace";
import { McpOffer } from "./mcpOffer";
import type { NewerVscode } from "./newerVscode";
import type { Parts } from "./parts";
import { registerEach } from "./registerEach";
import { registerSessions } from "./sessions";
import { registerStatus } from "./status";

export interface Following extends Disposable {
  /** Undefined where this version of VS Code takes no MCP servers. */
  readonly servers: McpOffer | undefined;
}

/** Begins to show it; what is there ends with the whole. */
export function follow(parts: Parts): Following {
  const { McpStdioServerDefinition } = vscode as unknown as NewerVscode;
  const registered = registerEach(parts, { sessions: registerSessions, status: registerStatus });
  const servers = McpStdioServerDefinition && new McpOffer(parts, McpStdioServerDefinition);
  return {
    servers,
    dispose: () => {
      registered.dispose();
      servers?.dispose();
    },
  };
}
