// Compiles only if the client's types fit those that were generated from the server's /openapi.json. Never runs.

import type * as client from "attache-client";

import type { components } from "./openapi.js";

type Schemas = components["schemas"];

/** Every value of the first type is a value of the second. */
type Fits<Given extends Taken, Taken> = Given;

export type Answers = [
  Fits<Schemas["AgentClaim"], client.Claim>,
  Fits<Schemas["RegistrationResult"], client.Registration>,
  Fits<Schemas["TokenResult"], client.Tokens>,
  Fits<Schemas["MachineResult"], client.Computer>,
  Fits<Schemas["DeviceCodeResult"], client.DeviceCode>,
  Fits<Schemas["AccountSummary"], client.AccountSummary>,
  Fits<Schemas["Unclassified"], client.HeldEntry>,
  Fits<Schemas["EventType"], client.EventType>,
  Fits<Schemas["LogKey"], client.LogKey>,
  Fits<Schemas["Space"], client.Space>,
  Fits<Schemas["SearchResult"], client.SearchResult>,
  Fits<Schemas["Memory"], client.Memory>,
  Fits<Schemas["MemoryEntry"], client.MemoryEntry>,
  Fits<Schemas["BatchMessage"], client.BatchMessage>,
];

/** Every member of the answer is a member of the client's type: a new one is not forgotten. */
type Covers<Answer, Known> = Exclude<keyof Answer, keyof Known> extends never ? true : { missing: Exclude<keyof Answer, keyof Known> };

export const covered: [
  Covers<Schemas["Space"], client.Space>,
  Covers<Schemas["SearchResult"], client.SearchResult>,
  Covers<Schemas["Memory"], client.Memory>,
  Covers<Schemas["MemoryEntry"], client.MemoryEntry>,
] = [true, true, true, true];

export type Requests = [
  Fits<client.Note, Schemas["Note"]>,
  Fits<client.MemoryChange, Schemas["MemoryChange"]>,
  Fits<Parameters<client.Knowledge["add"]>[0], Schemas["BatchRequest"]>,
  Fits<Parameters<client.Knowledge["updateSpace"]>[1], Schemas["SpaceChange"]>,
  Fits<client.Level, Schemas["ConsentLevel"]>,
  Fits<client.Lane, Schemas["Lane"]>,
  Fits<client.MemoryType, Schemas["MemoryType"]>,
];
