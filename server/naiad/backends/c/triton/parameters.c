/* The parameters of requests: the flat JSON object that the server gives, as Triton's interface has them. */
#include "adapter.h"

enum { STRING = 0, INT = 1, BOOL = 2, DOUBLE = 3 };

struct parameter { char *name, *text; uint32_t type; int64_t number; double real; bool yes; };

static const char *spaces(const char *at) { return at + strspn(at, " \t\r\n"); }

static unsigned hex(const char *at) {
  unsigned value = 0;
  sscanf(at, "%4x", &value);
  return value;
}

static char *put(char *to, unsigned code) {
  if (code < 0x80) {
    *to++ = (char)code;
  } else if (code < 0x800) {
    *to++ = (char)(0xC0 | code >> 6);
    *to++ = (char)(0x80 | (code & 63));
  } else if (code < 0x10000) {
    *to++ = (char)(0xE0 | code >> 12);
    *to++ = (char)(0x80 | (code >> 6 & 63));
    *to++ = (char)(0x80 | (code & 63));
  } else {
    *to++ = (char)(0xF0 | code >> 18);
    *to++ = (char)(0x80 | (code >> 12 & 63));
    *to++ = (char)(0x80 | (code >> 6 & 63));
    *to++ = (char)(0x80 | (code & 63));
  }
  return to;
}

/* A text in quotes; the server writes valid JSON. */
static char *text_at(const char **from) {
  const char *at = *from + 1;
  char *text = made(strlen(at) + 1), *to = text;
  while (*at && *at != '"') {
    if (*at != '\\') {
      *to++ = *at++;
      continue;
    }
    static const char names[] = "nrtbf", values[] = "\n\r\t\b\f";
    const char *found = at[1] ? strchr(names, at[1]) : NULL;
    if (at[1] == 'u') {
      unsigned code = hex(at + 2);
      at += 6;
      if (code >= 0xD800 && code < 0xDC00 && at[0] == '\\' && at[1] == 'u') {
        code = 0x10000 + ((code - 0xD800) << 10) + (hex(at + 2) - 0xDC00);
        at += 6;
      }
      to = put(to, code);
    } else {
      *to++ = found ? values[found - names] : at[1];
      at += at[1] ? 2 : 1;
    }
  }
  *from = *at ? at + 1 : at;
  return text;
}

static const char *value_at(const char *at, parameter *into) {
  if (*at == '"') {
    into->type = STRING;
    into->text = text_at(&at);
  } else if (*at == 't' || *at == 'f') {
    into->type = BOOL;
    into->yes = *at == 't';
  } else {
    const size_t size = strspn(at, "+-0123456789.eE");
    into->type = strcspn(at, ".eE") < size ? DOUBLE : INT;
    into->real = strtod(at, NULL);
    into->number = strtoll(at, NULL, 10);
  }
  return at + strcspn(at, ",}");
}

void read_parameters(request *self) {
  if (self->parameters) return;
  const char *at = self->request->parameters;
  size_t most = 1;
  for (const char *each = at; *each; each++) most += *each == ':';
  self->parameters = made(most * sizeof *self->parameters);
  at = spaces(at);
  if (*at == '{') at = spaces(at + 1);
  while (*at == '"' && self->parameter_count < most) {
    parameter *next = &self->parameters[self->parameter_count++];
    next->name = text_at(&at);
    at = spaces(at);
    if (*at == ':') at = spaces(at + 1);
    at = value_at(at, next);
    if (*at == ',') at = spaces(at + 1);
  }
}

void free_parameters(request *self) {
  for (uint32_t i = 0; i < self->parameter_count; i++) {
    free(self->parameters[i].name);
    free(self->parameters[i].text);
  }
  free(self->parameters);
}

API failure *TRITONBACKEND_RequestParameterCount(request *self, uint32_t *count) {
  read_parameters(self);
  *count = self->parameter_count;
  return NULL;
}
API failure *TRITONBACKEND_RequestParameter(request *self, uint32_t index, const char **name, uint32_t *type, const void **value) {
  read_parameters(self);
  if (index >= self->parameter_count) return failed(NAIAD_INVALID_ARG - 1, "there is no parameter of that index");
  const parameter *found = &self->parameters[index];
  const void *values[] = {found->text, &found->number, &found->yes, &found->real};
  *name = found->name;
  *type = found->type;
  *value = values[found->type];
  return NULL;
}
