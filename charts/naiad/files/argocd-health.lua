-- Health of an InferenceService for Argo CD (Lua 5.1). docs/gitops.md says how to install it.
local function found(type)
  for _, condition in ipairs((obj.status or {}).conditions or {}) do
    if condition.type == type then return condition end
  end
  return {}
end

local generation = obj.metadata.generation
local ready, stalled, stopped = found("Ready"), found("Stalled"), found("Stopped")

if stalled.status == "True" and stalled.observedGeneration == generation then
  return {status = "Degraded", message = stalled.reason .. ": " .. (stalled.message or "")}
end
if ready.status == nil or (obj.status.observedGeneration or 0) ~= generation then
  return {status = "Progressing", message = "the operator has not applied this spec yet"}
end
if ready.status == "True" then
  return {status = "Healthy", message = ready.message or ""}
end
if stopped.status == "True" and stopped.reason == "Suspended" then
  return {status = "Suspended", message = stopped.message or ""}
end
if stopped.status == "True" then
  -- Scaled to zero: what the spec or an autoscaler wants; the next request starts a pod.
  return {status = "Healthy", message = stopped.message or ""}
end
return {status = "Progressing", message = (ready.reason or "") .. ": " .. (ready.message or "")}
