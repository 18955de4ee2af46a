// SPDX-License-Identifier: Apache-2.0
/*
 * Links all of base, model and the machines. pure_link.py checks that this works, and what the
 * program then needs.
 */
int main(void)
{
    return 0;
}
