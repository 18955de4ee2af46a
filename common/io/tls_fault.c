// SPDX-License-Identifier: Apache-2.0
/*
 * TLS faults: texts for errors of OpenSSL
 *
 * See io/tls_fault.h.
 */
#include "io/tls_fault.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>

void tls_fault_of_certificate(char *out, size_t size, long verdict, const char *name,
                              const char *more)
{
    const char *reason = X509_verify_cert_error_string(verdict);

    switch (verdict) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        snprintf(out, size, "its certificate is not for %s: connect by a name that it has%s", name,
                 more);
        break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        snprintf(
            out, size,
            "its certificate, or that of its authority, has expired: the server needs a new one");
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        snprintf(out, size, "its certificate is not valid yet: is the clock right?");
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        snprintf(out, size, "its certificate is of an authority that is not in ca_file (%s)",
                 reason);
        break;
    default:
        snprintf(out, size, "its certificate is refused: %s", reason);
        break;
    }
}

bool tls_fault_of_error(char *out, size_t size, unsigned long error)
{
    const char *reason = ERR_reason_error_string(error);

    reason = reason ? reason : "the session has failed";
    switch (ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0) {
    case SSL_R_WRONG_VERSION_NUMBER:
        snprintf(out, size, "it does not speak TLS at this port: correct the port or the scheme");
        return true;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        snprintf(out, size, "it does not speak TLS 1.2 or later: update it, or its settings");
        return true;
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        snprintf(out, size, "it refuses the certificate of cert_file, or its absence (%s)", reason);
        return true;
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE: /* in TLS 1.2 also where it gets no certificate */
        snprintf(out, size,
                 "it refuses the handshake: it wants a certificate of cert_file, or other ciphers");
        return true;
    default:
        snprintf(out, size, "%s", reason);
        return false;
    }
}
