// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a fuzz target on inputs: each file, or each file of a folder, that is named
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "fuzz.h"

/* Return: 0 or 1. */
static int replay_file(const char *path)
{
    CLEANUP(buf_deinit) struct buf data = {0};
    FILE *file = fopen(path, "rb");
    size_t n = 1;

    if (!file) {
        perror(path);
        return 1;
    }
    while (n > 0 && buf_reserve(&data, 65536)) {
        n = fread(data.data + data.len, 1, 65536, file);
        data.len += n;
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data.data, data.len);
    return 0;
}

static int replay_folder(DIR *folder, const char *path)
{
    CLEANUP(buf_deinit) struct buf name = {0};
    int bad = 0, files = 0;

    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        if (entry->d_name[0] == '.')
            continue;
        buf_clear(&name);
        buf_printf(&name, "%s/%s", path, entry->d_name);
        bad |= replay_file(buf_str(&name));
        files++;
    }
    closedir(folder);
    printf("%s: %d inputs\n", path, files);
    return bad || files == 0;
}

int main(int argc, char **argv)
{
    int bad = argc < 2;

    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);

        bad |= folder ? replay_folder(folder, argv[i]) : replay_file(argv[i]);
    }
    return bad;
}
