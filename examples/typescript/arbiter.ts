// An arbiter in TypeScript that logs a task to the flywheel with fetch: whom it chose, how that went, what it was worth.
//
//   npm install && npx tsc
//   FLYWHEEL_URL=http://localhost:8200 FLYWHEEL_KEY=$(flywheel keys create --tenant acme) node arbiter.js
//
// An answer 200 means that the records are on disk. What fails on the way is sent again under the same
// Idempotency-Key, so that it is stored once.

type Kind = "routing" | "execution" | "evaluation" | "feedback";
type Answer = { accepted: number; rejected: number; errors: { index: number; reason: string; detail: string }[] };

declare const process: { env: Record<string, string | undefined>; exitCode?: number };

const url = process.env.FLYWHEEL_URL ?? "http://localhost:8200";
const key = process.env.FLYWHEEL_KEY ?? "";
const ATTEMPTS = 5;

const pause = (seconds: number) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

async function log(kind: Kind, records: object[]): Promise<Answer> {
  const name = crypto.randomUUID();
  for (let attempt = 1; ; attempt++) {
    let response: Response | undefined;
    try {
      response = await fetch(`${url}/v1/logs/${kind}`, {
        method: "POST",
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${key}`, "Idempotency-Key": name },
        body: JSON.stringify(records),
      });
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
    }
    if (response?.ok) return (await response.json()) as Answer;
    const again = !response || [409, 429, 503].includes(response.status);
    if (!again || attempt === ATTEMPTS) {
      throw new Error(`${kind} was not stored: ${response?.status} ${await response?.text()}`);
    }
    await pause(Number(response?.headers.get("Retry-After") ?? 2 ** attempt));
  }
}

// --- a task: two agents that reverse words, of which the arbiter chooses one -----------------------------------------

const agents: Record<string, (text: string) => string> = {
  careful: (text) => [...text].reverse().join(""),
  hasty: (text) => text.toUpperCase(),
};

function choose(): { id: string; propensity: number } {
  return Math.random() < 0.9 ? { id: "careful", propensity: 0.9 } : { id: "hasty", propensity: 0.1 };
}

async function run(text: string): Promise<void> {
  const taskId = crypto.randomUUID();
  const routedAt = new Date();
  const chosen = choose();
  const candidates = Object.keys(agents).map((agentId) => ({
    agentId,
    capabilityScore: 1,
    performanceScore: agentId === "careful" ? 0.9 : 0.1,
    loadScore: 1,
    finalScore: agentId === "careful" ? 0.9 : 0.1,
    selectionReason: "share of good answers",
    propensity: agentId === "careful" ? 0.9 : 0.1,
  }));
  const routed = await log("routing", [
    {
      timestamp: routedAt.toISOString(),
      taskId,
      taskType: "text-transformation",
      complexity: "trivial",
      description: `reverse ${text}`,
      selectedAgentId: chosen.id,
      strategy: "multi-armed-bandit",
      confidence: chosen.propensity,
      candidateAgents: candidates,
      primaryReason: "chosen by chance, the better agent more often",
    },
  ]);

  const began = performance.now();
  const answer = agents[chosen.id](text);
  const latencyMs = Math.max(performance.now() - began, 0.001);
  const correct = answer === [...text].reverse().join("");
  const executed = await log("execution", [
    {
      timestamp: new Date().toISOString(),
      taskId,
      agentId: chosen.id,
      success: correct,
      latencyMs,
      tokensUsed: text.length + answer.length,
      toolCallCount: 0,
      messages: [
        { role: "user", content: `reverse ${text}` },
        { role: "assistant", content: answer },
      ],
    },
  ]);

  const worth = correct ? 1 : 0;
  const evaluated = await log("evaluation", [
    {
      timestamp: new Date().toISOString(),
      taskId,
      agentId: chosen.id,
      qualityGates: [{ name: "correct", passed: correct, score: worth, threshold: 1, mandatory: true }],
      rubricScores: { format: 1, tool: 1, task: worth, minimal: 1, cost: 1, safety: 1 },
      overallScore: worth,
      cawsCompliant: true,
      budgetCompliant: true,
      passedAllMandatory: correct,
    },
  ]);
  console.log(JSON.stringify({ taskId, agentId: chosen.id, stored: [routed, executed, evaluated].map((a) => a.accepted) }));
}

run(process.env.TEXT ?? "flywheel").catch((error) => {
  console.error(String(error));
  process.exitCode = 1;
});
