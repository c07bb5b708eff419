/* What stands behind the tabs of the inspector that few steps have: fetched when somebody looks there first. */

export { Conversation } from "./Conversation";
export { ErrorTab } from "./ErrorTab";
export { InsideTab } from "./InsideTab";
export { TasksTab } from "./TasksTab";
