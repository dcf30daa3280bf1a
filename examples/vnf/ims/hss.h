// The HSS. A part of ims.c.
#include <search.h>
#include <stdatomic.h>

static char *names[USERS], *hashes[USERS];
static atomic_int served[USERS]; // Whether the S-CSCF serves the user.
static size_t users;

static void load(const char *file) {
  char name[NAME], password[NAME], hex[33];
  FILE *list = fopen(file, "r");
  hcreate(2 * USERS);
  while (list != NULL && users < USERS && fscanf(list, "%100s %100s", name, password) == 2) {
    strcat(name, "@ims.example");
    hash(hex, (const char *[]){name, "ims.example", password, NULL});
    names[users] = strdup(name);
    hashes[users] = strdup(hex);
    hsearch((ENTRY){.key = names[users], .data = (void *)users}, ENTER);
    users++;
  }
  if (list == NULL || fclose(list) != 0) {
    perror(file);
    exit(1);
  }
}

static void experimental(struct diameter *answer, uint32_t code) {
  struct diameter group = {0};
  put_number(&group, VENDOR, THREE_GPP);
  put_number(&group, EXPERIMENTAL_CODE, code);
  put(answer, EXPERIMENTAL, group.bytes, group.length);
}

static void answer_user(struct diameter *answer, uint32_t command, const unsigned char *avps, size_t length, size_t user) {
  struct diameter item = {0}, digest = {0};
  uint32_t kind = find_number(avps, length, ASSIGNMENT);
  if (command == USER_AUTHORIZATION) {
    experimental(answer, atomic_load(&served[user]) ? SUBSEQUENT_REGISTRATION : SUCCESS);
    put_text(answer, atomic_load(&served[user]) ? SERVER_NAME : SERVER_CAPABILITIES, atomic_load(&served[user]) ? SCSCF : "");
    return;
  }
  put_number(answer, RESULT, command == SERVER_ASSIGNMENT && (kind == 0 || kind == 3 || kind > 8) ? MISSING_AVP : SUCCESS);
  put_text(answer, USER_NAME, names[user]);
  if (command == SERVER_ASSIGNMENT) {
    atomic_store(&served[user], kind < 4);
    return;
  }
  put_text(&digest, DIGEST_REALM, "ims.example");
  put_text(&digest, DIGEST_ALGORITHM, "MD5");
  put_text(&digest, DIGEST_QOP, "auth");
  put_text(&digest, DIGEST_HA1, hashes[user]);
  put_text(&item, AUTH_SCHEME, "SIP Digest");
  put(&item, DIGEST, digest.bytes, digest.length);
  put_number(answer, AUTH_ITEMS, 1);
  put(answer, AUTH_ITEM, item.bytes, item.length);
}

static void answer(int from, const unsigned char *bytes, size_t length) {
  struct diameter answer;
  char session[NAME], private[NAME] = "";
  const unsigned char *avps = bytes + HEADER;
  uint32_t command = word(bytes + 4) & 0xffffff;
  length -= HEADER;
  begin(&answer, 0, command, word(bytes + 12), word(bytes + 16));
  if (command == CAPABILITIES || command == WATCHDOG || command == DISCONNECT) {
    put_number(&answer, RESULT, SUCCESS);
    command == CAPABILITIES ? put_capabilities(&answer, role) : put_origin(&answer, role);
  } else {
    if (find_text(avps, length, SESSION, session, sizeof session)) {
      put_text(&answer, SESSION, session);
    }
    put_application(&answer);
    put_number(&answer, AUTH_STATE, 1);
    put_origin(&answer, role);
    find_text(avps, length, USER_NAME, private, sizeof private);
    ENTRY *user = hsearch((ENTRY){.key = private}, FIND);
    if (command != USER_AUTHORIZATION && command != SERVER_ASSIGNMENT && command != MULTIMEDIA_AUTH) {
      answer.bytes[4] |= 0x20;
      put_number(&answer, RESULT, COMMAND_UNSUPPORTED);
    } else if (user == NULL) {
      experimental(&answer, USER_UNKNOWN);
    } else {
      answer_user(&answer, command, avps, length, (size_t)user->data);
    }
  }
  finish(&answer);
  send_bytes(from, (char *)answer.bytes, answer.length);
}

static void question_read(int from, void *object, char *packet, size_t length, int error) {
  struct request *input = (struct request *)object;
  int own = -1;
  (void)error;
  if (input != NULL && add(input->text, &input->length, SIP, packet, length)) {
    while ((own = diameter_length(input->text, input->length)) > 0) {
      if (input->text[4] & REQUEST) {
        answer(from, (unsigned char *)input->text, (size_t)own);
      }
      input->length -= (size_t)own;
      memmove(input->text, input->text + own, input->length);
    }
  }
  if (own < 0) {
    closeConn(from);
  }
}
