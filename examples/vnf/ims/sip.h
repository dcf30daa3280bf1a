// SIP (RFC 3261), as much of it as registration needs. Messages are read and written by osip2.
#include <ctype.h>
#include <osipparser2/osip_md5.h>
#include <osipparser2/osip_message.h>
#include <osipparser2/osip_parser.h>
#include <stdlib.h>
#include <strings.h>
#undef ACCEPT // The name of a header to osip2, of an event to the library.
#include "weir/vnf.h"

enum { SIP = 8192, NAME = 160 };

static inline void send_bytes(int connection, const char *bytes, size_t length) {
  while (length > 0) {
    size_t part = length < VNF_BUFFER_SIZE ? length : VNF_BUFFER_SIZE;
    char *packet = getPktBuf(connection);
    if (packet == NULL) {
      return; // The connection is gone.
    }
    memcpy(packet, bytes, part);
    sendData(connection, packet, part);
    bytes += part;
    length -= part;
  }
}

// The length of the first message of a stream, which ends with a zero byte; 0: not all of it has come; -1: it is none.
static inline int sip_length(const char *stream, size_t length) {
  const char *end = strstr(stream, "\r\n\r\n");
  if (strlen(stream) != length || (end == NULL && length >= SIP - 1)) {
    return -1;
  }
  if (end == NULL) {
    return 0;
  }
  for (const char *line = stream; line < end; line = strstr(line, "\r\n") + 2) {
    if (strncasecmp(line, "Content-Length:", 15) == 0 || strncasecmp(line, "l:", 2) == 0) {
      long body = strtol(strchr(line, ':') + 1, NULL, 10), all = end + 4 - stream + body;
      return body < 0 || all >= SIP ? -1 : (size_t)all <= length ? (int)all : 0;
    }
  }
  return -1;
}

static inline osip_message_t *sip_parse(const char *bytes, size_t length) {
  osip_message_t *message;
  if (osip_message_init(&message) != 0) {
    return NULL;
  }
  if (osip_message_parse(message, bytes, length) != 0) {
    osip_message_free(message);
    return NULL;
  }
  return message;
}

static inline void sip_send(int connection, osip_message_t *message) {
  char *bytes;
  size_t length;
  osip_message_force_update(message);
  if (osip_message_to_str(message, &bytes, &length) == 0) {
    send_bytes(connection, bytes, length);
    osip_free(bytes);
  }
}

// The first Via, by which a request is known that came before; to be given to osip_free.
static inline char *sip_via(const osip_message_t *message) {
  osip_via_t *via;
  char *text = NULL;
  if (osip_message_get_via(message, 0, &via) >= 0) {
    osip_via_to_str(via, &text);
  }
  return text;
}

// Puts a Via before the others, so that the response comes back here. False if the request went by too many proxies.
static inline int sip_forward(osip_message_t *message, int port, unsigned number) {
  char text[NAME];
  osip_via_t *via;
  osip_header_t *hops;
  long left = 70;
  if (osip_message_header_get_byname(message, "max-forwards", 0, &hops) >= 0 && hops->hvalue != NULL) {
    left = strtol(hops->hvalue, NULL, 10);
    osip_free(hops->hvalue);
    snprintf(text, sizeof text, "%ld", left - 1);
    hops->hvalue = osip_strdup(text);
  }
  snprintf(text, sizeof text, "SIP/2.0/TCP 127.0.0.1:%d;branch=z9hG4bK-weir-%u", port, number);
  if (osip_via_init(&via) == 0 && osip_via_parse(via, text) == 0) {
    osip_list_add(&message->vias, via, 0);
  }
  return left > 0;
}

// Takes the first Via away, which is ours.
static inline void sip_back(osip_message_t *message) {
  osip_via_t *via = osip_list_get(&message->vias, 0);
  if (via != NULL) {
    osip_list_remove(&message->vias, 0);
    osip_via_free(via);
  }
}

// Answers a request. more: further lines.
static inline void sip_respond(int connection, osip_message_t *request, int status, const char *reason, const char *more) {
  char out[SIP], *from = NULL, *to = NULL, *call = NULL, *cseq = NULL, tag[32] = "";
  int length = snprintf(out, sizeof out, "SIP/2.0 %d %s\r\n", status, reason);
  osip_generic_param_t *tagged;
  osip_via_t *via;
  for (int i = 0; osip_message_get_via(request, i, &via) >= 0 && length < SIP / 2; i++) {
    char *text;
    if (osip_via_to_str(via, &text) == 0) {
      length += snprintf(out + length, sizeof out - (size_t)length, "Via: %.*s\r\n", SIP / 4, text);
      osip_free(text);
    }
  }
  if (osip_to_get_tag(request->to, &tagged) != 0) {
    snprintf(tag, sizeof tag, ";tag=%lx", random());
  }
  osip_from_to_str(request->from, &from);
  osip_to_to_str(request->to, &to);
  osip_call_id_to_str(request->call_id, &call);
  osip_cseq_to_str(request->cseq, &cseq);
  length += snprintf(out + length, sizeof out - (size_t)length, "From: %s\r\nTo: %s%s\r\nCall-ID: %s\r\nCSeq: %s\r\n%sContent-Length: 0\r\n\r\n",
                     from, to, tag, call, cseq, more);
  osip_free(from);
  osip_free(to);
  osip_free(call);
  osip_free(cseq);
  if (length < SIP) {
    send_bytes(connection, out, (size_t)length);
  }
}

// What a user wants to have registered.
struct registration {
  char private[NAME], public[NAME], contact[NAME];
  long expires; // Seconds; 0: it is to be undone.
};

// A value without its quotes.
static inline const char *unquoted(const char *value, char *text) {
  size_t length = value == NULL ? 0 : strlen(value);
  if (length >= 2 && value[0] == '"' && length - 2 < NAME) {
    memcpy(text, value + 1, length - 2);
    text[length - 2] = 0;
  } else {
    snprintf(text, NAME, "%s", value == NULL ? "" : value);
  }
  return text;
}

// Reads what a request to register asks for; false if it cannot be used.
static inline int sip_registration(const osip_message_t *request, struct registration *asked) {
  osip_authorization_t *authorization;
  osip_contact_t *contact;
  osip_header_t *header;
  osip_generic_param_t *own;
  char *text;
  if (!MSG_IS_REGISTER(request) || request->from == NULL || request->to == NULL || request->to->url == NULL || request->to->url->username == NULL ||
      request->to->url->host == NULL || request->call_id == NULL || request->cseq == NULL || osip_list_size(&request->vias) == 0 ||
      osip_message_get_contact(request, 0, &contact) < 0) {
    return 0;
  }
  int length = snprintf(asked->public, NAME, "sip:%s@%s", request->to->url->username, request->to->url->host);
  strcpy(asked->private, asked->public + 4);
  if (length >= NAME) {
    return 0;
  }
  if (osip_message_get_authorization(request, 0, &authorization) >= 0) {
    unquoted(authorization->username, asked->private);
  }
  asked->expires = 3600;
  if (osip_message_header_get_byname(request, "expires", 0, &header) >= 0 && header->hvalue != NULL) {
    asked->expires = strtol(header->hvalue, NULL, 10);
  }
  if (osip_contact_param_get_byname(contact, "expires", &own) == 0 && own->gvalue != NULL) {
    asked->expires = strtol(own->gvalue, NULL, 10);
  }
  asked->expires = asked->expires < 0 ? 0 : asked->expires > 3600 ? 3600 : asked->expires;
  strcpy(asked->contact, "*");
  if (contact->url == NULL) {
    asked->expires = 0;
  } else if (osip_uri_to_str(contact->url, &text) == 0) {
    snprintf(asked->contact, NAME, "<%s>", text);
    osip_free(text);
  }
  return 1;
}

// The MD5 of texts with colons between, in hexadecimal; NULL ends them.
static inline void hash(char *hex, const char *const *texts) {
  unsigned char sum[16];
  osip_MD5_CTX context;
  osip_MD5Init(&context);
  for (int i = 0; texts[i] != NULL; i++) {
    if (i > 0) {
      osip_MD5Update(&context, (unsigned char *)":", 1);
    }
    osip_MD5Update(&context, (unsigned char *)texts[i], (unsigned)strlen(texts[i]));
  }
  osip_MD5Final(sum, &context);
  for (int i = 0; i < 16; i++) {
    sprintf(hex + 2 * i, "%02x", sum[i]);
  }
}

// Whether a request has the answer to a challenge (1), a wrong one (0), or none to this one (-1).
static inline int sip_check(const osip_message_t *request, const char *nonce, const char *ha1) {
  osip_authorization_t *authorization;
  char own[NAME], uri[NAME], nc[NAME], cnonce[NAME], qop[NAME], response[NAME], algorithm[NAME], ha2[33], right[33];
  if (osip_message_get_authorization(request, 0, &authorization) < 0 || strcmp(unquoted(authorization->nonce, own), nonce) != 0) {
    return -1;
  }
  hash(ha2, (const char *[]){"REGISTER", unquoted(authorization->uri, uri), NULL});
  unquoted(authorization->message_qop, qop);
  if (qop[0] == 0) {
    hash(right, (const char *[]){ha1, nonce, ha2, NULL});
  } else {
    hash(right, (const char *[]){ha1, nonce, unquoted(authorization->nonce_count, nc), unquoted(authorization->cnonce, cnonce), qop, ha2, NULL});
  }
  unquoted(authorization->algorithm, algorithm);
  return strcmp(unquoted(authorization->response, response), right) == 0 && (algorithm[0] == 0 || strcasecmp(algorithm, "MD5") == 0) &&
         (qop[0] == 0 || strcmp(qop, "auth") == 0);
}
