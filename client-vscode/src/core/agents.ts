/** How agents are shown: the name that people know them by, and one of the editor's own icons. */

const SHOWN: Readonly<Record<string, readonly [name: string, icon: string]>> = {
  aider: ["Aider", "tools"],
  amp: ["Amp", "zap"],
  antigravity: ["Antigravity", "rocket"],
  chatgpt: ["ChatGPT", "comment-discussion"],
  "claude-ai": ["Claude", "comment"],
  "claude-code": ["Claude Code", "sparkle"],
  cline: ["Cline", "hubot"],
  codex: ["Codex", "terminal"],
  continue: ["Continue", "debug-continue"],
  "copilot-chat": ["Copilot Chat", "github"],
  "copilot-cli": ["Copilot CLI", "github-alt"],
  cursor: ["Cursor", "inspect"],
  "gemini-cli": ["Gemini CLI", "star"],
  goose: ["Goose", "telescope"],
  iflow: ["iFlow", "pulse"],
  kilo: ["Kilo", "flame"],
  "kilo-code": ["Kilo Code", "flame"],
  kimi: ["Kimi", "lightbulb"],
  note: ["Note", "note"],
  opencode: ["opencode", "code"],
  pi: ["Pi", "symbol-operator"],
  "qwen-code": ["Qwen Code", "symbol-constant"],
  "roo-code": ["Roo Code", "hubot"],
  slack: ["Slack", "organization"],
  specstory: ["SpecStory", "book"],
  text: ["Text", "file"],
  windsurf: ["Windsurf", "globe"],
  zed: ["Zed", "edit"],
};

/** The agents that this version knows, as the daemon names them. */
export const AGENTS: readonly string[] = Object.keys(SHOWN);

/** What stands where an exchange names its agent, if somebody asked to remember it. */
export const NOTE = "note";

/** The agent's name for people; one that is not known yet is shown as the daemon names it. */
export function agentName(agent: string): string {
  return SHOWN[agent]?.[0] ?? agent;
}

/** A codicon that every VS Code since 1.90 has. */
export function agentIcon(agent: string): string {
  return SHOWN[agent]?.[1] ?? "comment-discussion";
}
