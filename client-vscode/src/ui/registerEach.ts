/** Registering parts side by side. */

import * as vscode from "vscode";

import { inWords } from "../core/errors";
import type { Parts } from "./parts";

/** Registers them all; one that fails costs itself, and is told in the log: one part less is better than none. */
export function registerEach(parts: Parts, registers: Readonly<Record<string, (parts: Parts) => vscode.Disposable>>): vscode.Disposable {
  const registered = Object.entries(registers).flatMap(([name, register]) => {
    try {
      return [register(parts)];
    } catch (error) {
      parts.log.error(`the part ${name} failed: ${inWords(error)}`);
      return [];
    }
  });
  return vscode.Disposable.from(...registered);
}
