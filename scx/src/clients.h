/* SPDX-License-Identifier: GPL-2.0-only */
/* The socket and its connections. Nobody is waited for. */
#ifndef CLIENTS_H
#define CLIENTS_H

#include "service.h"

/* A socket at @path that every user may connect to; -1 with errno. */
int clients_listen(const char *path);
/* Wait for a second at most, and then serve each client that has something to say once. */
void clients_turn(struct service *s, int listener);
/* Drop those of others than root that have asked nothing for long. */
void clients_drop_idle(void);

#endif
