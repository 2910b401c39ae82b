/* Point reads of SQLite by a prepared SELECT: all records in memory's cache, keys in random order,
 * made before the time begins. Prints reads a second. Arguments: database, records, reads. */
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t state = 1;

static uint64_t draw(void) { /* splitmix64 */
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

enum { KEY_BYTES = 16 };

int main(int count, char **words) {
    sqlite3 *database;
    sqlite3_stmt *select;
    if (count != 4 || sqlite3_open(words[1], &database) != SQLITE_OK) return 2;
    long records = atol(words[2]), reads = atol(words[3]), sum = 0;
    sqlite3_exec(database, "pragma cache_size = -1000000; begin", 0, 0, 0);
    const char *text = "select value from records where key = ?";
    if (sqlite3_prepare_v2(database, text, -1, &select, 0) != SQLITE_OK) return 2;
    char(*keys)[KEY_BYTES + 1] = malloc(reads * sizeof *keys);
    if (keys == NULL) return 2;
    double best = 0;
    for (int round = 0; round < 4; round++) { /* the first one fills the cache */
        for (long read = 0; read < reads; read++)
            snprintf(keys[read], sizeof *keys, "user%012ld", (long)(draw() % records));
        double begin = now();
        for (long read = 0; read < reads; read++) {
            sqlite3_bind_blob(select, 1, keys[read], KEY_BYTES, SQLITE_STATIC);
            if (sqlite3_step(select) != SQLITE_ROW) return 3;
            sum += sqlite3_column_bytes(select, 0) + *(const uint8_t *)sqlite3_column_blob(select, 0);
            sqlite3_reset(select);
        }
        double rate = reads / (now() - begin);
        if (0 < round && best < rate) best = rate;
    }
    printf("%.0f\n", best);
    return sum == 0;
}
