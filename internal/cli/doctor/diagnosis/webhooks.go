// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
)

// hook is a webhook as the API server is told to call it.
type hook struct {
	object string
	client admissionv1.WebhookClientConfig
}

// hubWebhooks says first what is wrong with how the webhooks are called, as it
// is the cause, and else what became of calls.
func hubWebhooks(e *evidence.Evidence) []Finding {
	var found []Finding
	for _, r := range []struct {
		what string
		err  error
	}{{"the MutatingWebhookConfigurations", e.Hub.Mutating.Err}, {"the ValidatingWebhookConfigurations", e.Hub.Validating.Err}} {
		if r.err != nil {
			found = append(found, unseenFinding(r.what, r.err))
		}
	}
	hooks := hooksOf(e.Hub)
	if len(hooks) == 0 && len(found) == 0 && !hostedHub(e.Hub) {
		return []Finding{brokenFinding("WebhooksMissing", "the webhook configurations of the hub", "there is none, so nothing checks what is written",
			"The operator installs them when the webhook servers run: fix the previous steps.")}
	}
	for _, h := range hooks {
		found = append(found, servingCertificateFindings(e.Hub, h)...)
	}
	for _, t := range e.Hub.Trials {
		found = append(found, trialFindings(t)...)
	}
	return found
}

func hooksOf(h *evidence.HubEvidence) []hook {
	var hooks []hook
	if h.Mutating.Found {
		for _, configuration := range h.Mutating.Value.Items {
			for _, w := range configuration.Webhooks {
				hooks = append(hooks, hook{"MutatingWebhookConfiguration " + configuration.Name, w.ClientConfig})
			}
		}
	}
	if h.Validating.Found {
		for _, configuration := range h.Validating.Value.Items {
			for _, w := range configuration.Webhooks {
				hooks = append(hooks, hook{"ValidatingWebhookConfiguration " + configuration.Name, w.ClientConfig})
			}
		}
	}
	return hooks
}

// servingCertificateFindings says whether the API server trusts the certificate of a webhook server.
func servingCertificateFindings(h *evidence.HubEvidence, w hook) []Finding {
	if w.client.Service == nil {
		return nil
	}
	secret, known := h.Serving[w.client.Service.Name]
	next := func(name string) string {
		return fmt.Sprintf("The operator creates a new one: kubectl -n %s delete secret %s. If this persists, check that the operator is running.",
			w.client.Service.Namespace, name)
	}
	switch {
	case !known:
		return nil
	case secret.Err != nil:
		return []Finding{unseenFinding("the certificate of the webhook server "+w.client.Service.Name, secret.Err)}
	case !secret.Found:
		return []Finding{brokenFinding("ServingCertificateMissing", w.object, "the Secret with the certificate of its server is not there",
			"The operator creates it: check that it is running.")}
	}
	certificate := firstCertificate(secret.Value.Data["tls.crt"])
	object := fmt.Sprintf("Secret %s/%s", secret.Value.Namespace, secret.Value.Name)
	if certificate == nil {
		return []Finding{brokenFinding("ServingCertificateInvalid", object, "its tls.crt is not a certificate", next(secret.Value.Name))}
	}
	if h.Now.After(certificate.NotAfter) {
		return []Finding{brokenFinding("ServingCertificateExpired", object, "the certificate expired at "+certificate.NotAfter.UTC().Format(time.RFC3339), next(secret.Value.Name))}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(w.client.CABundle)
	host := fmt.Sprintf("%s.%s.svc", w.client.Service.Name, w.client.Service.Namespace)
	if _, err := certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: h.Now}); err != nil {
		return []Finding{brokenFinding("WebhookUntrusted", w.object,
			fmt.Sprintf("its caBundle does not verify the certificate of its server, so every request is refused: %v", err),
			"The operator writes the right one within moments: check that it is running. If it is: "+strings.TrimPrefix(next(secret.Value.Name), "The operator creates a new one: "))}
	}
	return nil
}

func firstCertificate(data []byte) *x509.Certificate {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return certificate
}

// trialFindings says what the answer to a dry run means. A refusal by a webhook is an
// answer of it.
func trialFindings(t evidence.Trial) []Finding {
	text := ""
	if t.Err != nil {
		text = t.Err.Error()
	}
	object := "creating a " + t.Kind + " as a dry run"
	switch {
	case t.Err == nil, strings.Contains(text, "admission webhook"), apierrors.IsNotFound(t.Err):
		return nil
	case apierrors.IsForbidden(t.Err):
		return []Finding{{
			State: Unseen, Reason: "CannotBeTried", Object: object, Cause: text,
			Next: "Whether the webhooks respond can only be checked with permission to create what they admit.",
		}}
	case strings.Contains(text, "failed calling webhook") && strings.Contains(text, "x509"):
		return []Finding{brokenFinding("WebhookUntrusted", object, "the API server does not trust a webhook, so it refuses every request: "+text,
			"The operator writes the right caBundle to the webhook configurations within moments: check that it is running.")}
	case strings.Contains(text, "failed calling webhook"):
		return []Finding{brokenFinding("WebhookSilent", object, "the API server does not get an answer: "+text,
			"Look at the pods and the Services: kubectl -n open-cluster-management-hub get pods,endpointslices. The API server has to reach pods of this cluster.")}
	default:
		return []Finding{oddFinding("TrialFailed", object, text, "Run the command again; if this persists, see the log of the hub's API server.")}
	}
}
