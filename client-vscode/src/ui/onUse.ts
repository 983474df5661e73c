/** What a person or a chat calls for: loaded when the first of it is. */

import type { Disposable } from "../core/palace";
import { registerAgents } from "./agents";
import { chatTool } from "./chatTool";
import { ExchangeDocuments, registerExchanges } from "./exchanges";
import { registerInstallation } from "./installDaemon";
import type { Tool } from "./newerVscode";
import { registerNotes } from "./notes";
import { registerPalette } from "./palette";
import type { Parts } from "./parts";
import { registerRecentSessions } from "./recentSessions";
import { registerEach } from "./registerEach";

export { installationEnded } from "./installDaemon";

const PARTS = {
  exchanges: registerExchanges,
  palette: registerPalette,
  recentSessions: registerRecentSessions,
  notes: registerNotes,
  agents: registerAgents,
  installation: registerInstallation,
};

export interface OnUse extends Disposable {
  readonly documents: ExchangeDocuments;
  readonly tool: Tool;
}

/** Says what the commands do, and makes what answers for documents and for the chat's tool. */
export function registerOnUse(parts: Parts): OnUse {
  const documents = new ExchangeDocuments(parts);
  const registered = registerEach(parts, PARTS);
  return {
    documents,
    tool: chatTool(parts),
    dispose: () => {
      documents.dispose();
      registered.dispose();
    },
  };
}
