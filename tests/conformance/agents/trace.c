/* A repository agent for Triton's C interface that notes its calls in the file of its parameter "log", as the Python one in test_agents.py does.
   Its other parameters: "as", the name to note; by action, what else to do ("raise", "relocate"). */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void Error, Agent, Model;

extern Error* TRITONSERVER_ErrorNew(int code, const char* message);
extern Error* TRITONREPOAGENT_ModelParameterCount(Agent*, Model*, uint32_t* count);
extern Error* TRITONREPOAGENT_ModelParameter(Agent*, Model*, uint32_t index, const char** key, const char** value);
extern Error* TRITONREPOAGENT_ModelRepositoryLocation(Agent*, Model*, int* kind, const char** folder);
extern Error* TRITONREPOAGENT_ModelRepositoryLocationAcquire(Agent*, Model*, int kind, const char** folder);
extern Error* TRITONREPOAGENT_ModelRepositoryUpdate(Agent*, Model*, int kind, const char* folder);

static const int kLocal = 0, kInvalid = 3;
static const char* const kActions[] = {"load", "load_complete", "load_fail", "unload", "unload_complete"};

static const char* parameter(Agent* agent, Model* model, const char* wanted)
{
  uint32_t count = 0;
  TRITONREPOAGENT_ModelParameterCount(agent, model, &count);
  for (uint32_t index = 0; index < count; ++index) {
    const char *key, *value;
    TRITONREPOAGENT_ModelParameter(agent, model, index, &key, &value);
    if (strcmp(key, wanted) == 0) return value;
  }
  return "";
}

Error* TRITONREPOAGENT_ModelAction(Agent* agent, Model* model, int action)
{
  int kind;
  const char* folder;
  FILE* log = fopen(parameter(agent, model, "log"), "a");
  fprintf(log, "%s %s\n", parameter(agent, model, "as"), kActions[action]);
  fclose(log);
  const char* how = parameter(agent, model, kActions[action]);
  if (strcmp(how, "raise") == 0) return TRITONSERVER_ErrorNew(kInvalid, "fails on purpose");
  if (strcmp(how, "relocate") == 0) {
    char command[4096];
    TRITONREPOAGENT_ModelRepositoryLocation(agent, model, &kind, &folder);
    const char* other;
    TRITONREPOAGENT_ModelRepositoryLocationAcquire(agent, model, kLocal, &other);
    snprintf(command, sizeof command, "cp -r %s/1 %s && echo bogus > %s/config.pbtxt", folder, other, other);
    if (system(command) != 0) return TRITONSERVER_ErrorNew(kInvalid, "cannot copy");
    return TRITONREPOAGENT_ModelRepositoryUpdate(agent, model, kLocal, other);
  }
  return NULL;
}
