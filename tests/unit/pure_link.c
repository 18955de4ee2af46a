// SPDX-License-Identifier: Apache-2.0
/*
 * Holds all of base, model and the machines: that it links, and what it then needs, is the test
 */
int main(void)
{
    return 0;
}
