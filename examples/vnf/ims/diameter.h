// Diameter (RFC 6733), and what the Cx interface between CSCFs and HSS (3GPP TS 29.229) says with it.
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { CAPABILITIES = 257, WATCHDOG = 280, DISCONNECT = 282, USER_AUTHORIZATION = 300, SERVER_ASSIGNMENT = 301, MULTIMEDIA_AUTH = 303 };
enum { CX = 16777216, THREE_GPP = 10415, DIAMETER = 4096, HEADER = 20, REQUEST = 0x80, PROXIABLE = 0x40 };
// Attributes; those from 600 on are of 3GPP.
enum {
  USER_NAME = 1, DIGEST_REALM = 104, DIGEST_QOP = 110, DIGEST_ALGORITHM = 111, DIGEST_HA1 = 121, HOST_ADDRESS = 257,
  AUTH_APPLICATION = 258, VENDOR_APPLICATION = 260, SESSION = 263, ORIGIN_HOST = 264, SUPPORTED_VENDOR = 265, VENDOR = 266,
  RESULT = 268, PRODUCT = 269, AUTH_STATE = 277, DESTINATION_REALM = 283, ORIGIN_REALM = 296, EXPERIMENTAL = 297,
  EXPERIMENTAL_CODE = 298, VISITED_NETWORK = 600, PUBLIC_IDENTITY = 601, SERVER_NAME = 602, SERVER_CAPABILITIES = 603,
  USER_DATA = 606, AUTH_ITEMS = 607, AUTH_SCHEME = 608, AUTH_ITEM = 612, ASSIGNMENT = 614, AUTHORIZATION_TYPE = 623,
  DATA_AVAILABLE = 624, DIGEST = 635
};
enum { SUCCESS = 2001, SUBSEQUENT_REGISTRATION = 2002, COMMAND_UNSUPPORTED = 3001, USER_UNKNOWN = 5001, MISSING_AVP = 5005 };

static const char SCSCF[] = "sip:scscf.ims.example";

// A message, or the attributes within one. Attributes that do not fit are left out.
struct diameter {
  size_t length;
  unsigned char bytes[DIAMETER];
};

static inline uint32_t word(const unsigned char *bytes) {
  uint32_t value;
  memcpy(&value, bytes, 4);
  return ntohl(value);
}

static inline void set_word(unsigned char *bytes, uint32_t value) {
  value = htonl(value);
  memcpy(bytes, &value, 4);
}

static inline void put(struct diameter *to, uint32_t code, const void *data, size_t length) {
  size_t head = code >= 600 ? 12 : 8, padded = (head + length + 3) & ~(size_t)3;
  if (length > DIAMETER || to->length + padded > DIAMETER) {
    return;
  }
  unsigned char *at = to->bytes + to->length;
  memset(at, 0, padded);
  set_word(at, code);
  set_word(at + 4, (uint32_t)((code >= 600 ? 0xc0u : 0x40u) << 24 | (head + length)));
  if (code >= 600) {
    set_word(at + 8, THREE_GPP);
  }
  memcpy(at + head, data, length);
  to->length += padded;
}

static inline void put_text(struct diameter *to, uint32_t code, const char *text) {
  put(to, code, text, strlen(text));
}

static inline void put_number(struct diameter *to, uint32_t code, uint32_t number) {
  unsigned char bytes[4];
  set_word(bytes, number);
  put(to, code, bytes, 4);
}

static inline void put_application(struct diameter *to) {
  struct diameter group = {0};
  put_number(&group, VENDOR, THREE_GPP);
  put_number(&group, AUTH_APPLICATION, CX);
  put(to, VENDOR_APPLICATION, group.bytes, group.length);
}

static inline void put_origin(struct diameter *to, const char *host) {
  char name[64];
  snprintf(name, sizeof name, "%s.ims.example", host);
  put_text(to, ORIGIN_HOST, name);
  put_text(to, ORIGIN_REALM, "ims.example");
}

static inline void begin(struct diameter *to, uint32_t flags, uint32_t command, uint32_t hop, uint32_t end) {
  uint32_t application = command < 300 ? 0 : CX;
  to->length = HEADER;
  set_word(to->bytes + 4, (flags | (application != 0 ? PROXIABLE : 0)) << 24 | command);
  set_word(to->bytes + 8, application);
  set_word(to->bytes + 12, hop);
  set_word(to->bytes + 16, end);
}

static inline void finish(struct diameter *to) {
  set_word(to->bytes, 1u << 24 | (uint32_t)to->length);
}

static inline void put_capabilities(struct diameter *to, const char *host) {
  static const unsigned char address[] = {0, 1, 127, 0, 0, 1};
  put_origin(to, host);
  put(to, HOST_ADDRESS, address, sizeof address);
  put_number(to, VENDOR, 0);
  put_text(to, PRODUCT, "weir-vnf");
  put_number(to, SUPPORTED_VENDOR, THREE_GPP);
  put_application(to);
}

// A question of a CSCF about a user, without what only its command has.
static inline void question(struct diameter *to, const char *host, uint32_t command, uint32_t number, const char *private, const char *public) {
  char session[96];
  snprintf(session, sizeof session, "%s.ims.example;1;%u", host, number);
  begin(to, REQUEST, command, number, number);
  put_text(to, SESSION, session);
  put_application(to);
  put_number(to, AUTH_STATE, 1);
  put_origin(to, host);
  put_text(to, DESTINATION_REALM, "ims.example");
  put_text(to, USER_NAME, private);
  put_text(to, PUBLIC_IDENTITY, public);
}

// The data of an attribute, or NULL.
static inline const unsigned char *find(const unsigned char *bytes, size_t length, uint32_t code, size_t *found) {
  while (length >= 8) {
    uint32_t flags = word(bytes + 4) >> 24;
    size_t own = word(bytes + 4) & 0xffffff, head = flags & 0x80 ? 12 : 8, padded = (own + 3) & ~(size_t)3;
    if (own < head || own > length) {
      return NULL;
    }
    if (word(bytes) == code && (code < 600) == (head == 8)) {
      *found = own - head;
      return bytes + head;
    }
    if (padded >= length) {
      return NULL;
    }
    bytes += padded;
    length -= padded;
  }
  return NULL;
}

static inline uint32_t find_number(const unsigned char *bytes, size_t length, uint32_t code) {
  size_t found = 0;
  const unsigned char *data = find(bytes, length, code, &found);
  return data != NULL && found == 4 ? word(data) : 0;
}

// Copies an attribute as text; whether it was there, and fitted.
static inline int find_text(const unsigned char *bytes, size_t length, uint32_t code, char *text, size_t size) {
  size_t found = 0;
  const unsigned char *data = find(bytes, length, code, &found);
  if (data == NULL || found >= size) {
    return 0;
  }
  memcpy(text, data, found);
  text[found] = 0;
  return 1;
}

// Whether an answer says that the peer did what it was asked to. Attributes begin behind the header.
static inline int succeeded(const unsigned char *avps, size_t length) {
  size_t found = 0;
  uint32_t code = find_number(avps, length, RESULT);
  const unsigned char *group = code == 0 ? find(avps, length, EXPERIMENTAL, &found) : NULL;
  return (group != NULL ? find_number(group, found, EXPERIMENTAL_CODE) : code) / 1000 == 2;
}

// The length of the first message of a stream; 0: not all of it has come; -1: it is none.
static inline int diameter_length(const char *stream, size_t length) {
  const unsigned char *bytes = (const unsigned char *)stream;
  if (length < 4) {
    return 0;
  }
  uint32_t own = word(bytes) & 0xffffff;
  if (bytes[0] != 1 || own < HEADER || own > DIAMETER || own % 4 != 0) {
    return -1;
  }
  return own <= length ? (int)own : 0;
}
