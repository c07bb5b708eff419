/* What stands behind the other tabs of a run, and in its menu: fetched when somebody looks there first. */

export { DefinitionTab } from "./DefinitionTab";
export { EventsTab } from "./EventsTab";
export { More } from "./More";
