/** The settings of the extension; every default stands in package.json. */

import * as vscode from "vscode";

export interface Settings {
  readonly python: string;
  readonly dataDirectory: string;
  readonly startDaemon: boolean;
  readonly recall: { readonly scope: "all" | "project"; readonly limit: number; readonly delayMs: number };
  readonly statusBar: boolean;
  readonly sessionsLimit: number;
}

/** Reads them; a value of another kind, or out of bounds, is as if it were not there: a file of settings holds anything. */
export function readSettings(): Settings {
  const section = vscode.workspace.getConfiguration("palace");
  const read = <T>(name: string, otherwise: T): T => {
    const value: unknown = section.get(name, otherwise);
    return typeof value === typeof otherwise && !Number.isNaN(value) ? (value as T) : otherwise;
  };
  const scope: string = read("recall.scope", "all");
  return {
    python: read("python", "").trim(),
    dataDirectory: read("dataDirectory", "").trim(),
    startDaemon: read("startDaemon", true),
    recall: {
      scope: scope === "project" ? "project" : "all",
      limit: within(read("recall.limit", 20), 1, 100),
      delayMs: within(read("recall.delayMs", 120), 0, 2_000),
    },
    statusBar: read("statusBar", true),
    sessionsLimit: within(read("sessions.limit", 200), 10, 1_000),
  };
}

function within(value: number, least: number, most: number): number {
  return Math.max(least, Math.min(most, Math.round(value)));
}
