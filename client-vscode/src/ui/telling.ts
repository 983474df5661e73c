/** What parts of the editor's side tell a person in the same way. */

import * as vscode from "vscode";

import { inWords, isCancelled } from "../core/errors";
import { plainMessage } from "../core/wording";

/** Says what went wrong, unless the person withdrew the request. */
export function complain(error: unknown): void {
  if (!isCancelled(error)) void vscode.window.showErrorMessage(plainMessage(`Palace: ${inWords(error)}`));
}

/** Keeps the rows of a quick pick in their order while the person filters: the editor would sort them by where the words stand. */
export function keepOrder(pick: object): void {
  try {
    Object.assign(pick, { sortByLabel: false }); // a proposed property, which the editor takes from anybody
  } catch {
    // an editor that does not take it sorts only what is filtered
  }
}

/**
 * Turns how far something is, in percent, into the editor's increments. What begins anew with each stage leaves the bar
 * where it is until it is further.
 */
export function rising(report: vscode.Progress<{ message?: string; increment?: number }>): (message: string, percent: number | undefined) => void {
  let shown = 0;
  return (message, percent = shown) => {
    report.report({ message, increment: Math.max(0, percent - shown) });
    shown = Math.max(shown, percent);
  };
}
