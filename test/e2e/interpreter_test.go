// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/server/certs"
)

// interpreter starts a webhook on this machine, which the clusters of the lab can
// reach, that says what Crews mean, and makes a manifest that has it asked:
// interpreter FILE. It goes with the script.
func interpreter(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: interpreter FILE")
	}
	address, err := hostAddress()
	ts.Check(err)
	authority, err := certs.NewAuthority("interpreter", time.Now())
	ts.Check(err)
	pair, err := certs.NewServing(authority, []string{address}, time.Now())
	ts.Check(err)
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	ts.Check(err)
	listener, err := tls.Listen("tcp", net.JoinHostPort(address, "0"), &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	ts.Check(err)
	server := &http.Server{Handler: http.HandlerFunc(serveCrews), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // it ends when the script does
	ts.Defer(func() { _ = server.Close() })

	configuration := configv1alpha1.ResourceInterpreterWebhookConfiguration{}
	configuration.APIVersion, configuration.Kind = configv1alpha1.GroupVersion.String(), "ResourceInterpreterWebhookConfiguration"
	configuration.Name = "crews"
	where := "https://" + listener.Addr().String()
	configuration.Webhooks = []configv1alpha1.ResourceInterpreterWebhook{{
		Name: "crews.samples.example.com", InterpreterContextVersions: []string{"v1alpha1"},
		ClientConfig: configv1alpha1.WebhookClientConfig{URL: &where, CABundle: authority.CertPEM},
		Rules: []configv1alpha1.RuleWithOperations{{
			Operations: []configv1alpha1.InterpreterOperation{configv1alpha1.InterpreterOperationAll},
			Rule:       configv1alpha1.Rule{APIGroups: []string{"samples.example.com"}, APIVersions: []string{"v1"}, Kinds: []string{"Crew"}},
		}},
	}}
	manifest, err := json.Marshal(configuration)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), manifest, 0o600))
}

// hostAddress is the address of this machine in the network of the lab: the first one.
func hostAddress() (string, error) {
	config, err := clientcmd.LoadFromFile(theLab.KubeconfigPath())
	if err != nil {
		return "", err
	}
	server, err := url.Parse(config.Clusters[hubName].Server)
	if err != nil {
		return "", err
	}
	address, err := netip.ParseAddr(server.Hostname())
	if err != nil {
		return "", err
	}
	return netip.PrefixFrom(address, 24).Masked().Addr().Next().String(), nil
}

// crew is the kind of config/samples/propagation-customization.
type crew struct {
	Spec struct {
		Workers  int32  `json:"workers"`
		Paused   bool   `json:"paused"`
		Settings string `json:"settings"`
	} `json:"spec"`
	Status struct {
		Ready int32 `json:"ready"`
	} `json:"status"`
}

func serveCrews(w http.ResponseWriter, r *http.Request) {
	question := configv1alpha1.ResourceInterpreterContext{}
	if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := ofCrews(question.Request)
	if err != nil {
		answer = &configv1alpha1.ResourceInterpreterResponse{Status: &configv1alpha1.RequestStatus{Message: err.Error()}}
	}
	answer.UID, answer.Successful = question.Request.UID, err == nil
	question.Request, question.Response = nil, answer
	_ = json.NewEncoder(w).Encode(question) // whoever asked is gone, or asks again
}

// ofCrews says what the sample's scripts say, and that it was it who said it.
func ofCrews(of *configv1alpha1.ResourceInterpreterRequest) (*configv1alpha1.ResourceInterpreterResponse, error) {
	object, observed, answer := crew{}, crew{}, &configv1alpha1.ResourceInterpreterResponse{}
	if err := json.Unmarshal(of.Object.Raw, &object); err != nil {
		return answer, err
	}
	if of.ObservedObject != nil {
		if err := json.Unmarshal(of.ObservedObject.Raw, &observed); err != nil {
			return answer, err
		}
	}
	patch := func(format string, values ...any) {
		answer.PatchType, answer.Patch = new(configv1alpha1.PatchTypeJSONPatch), fmt.Appendf(nil, format, values...)
	}
	switch of.Operation {
	case configv1alpha1.InterpreterOperationInterpretReplica:
		answer.Replicas = &object.Spec.Workers
	case configv1alpha1.InterpreterOperationReviseReplica:
		patch(`[{"op":"replace","path":"/spec/workers","value":%d}]`, *of.DesiredReplicas)
	case configv1alpha1.InterpreterOperationInterpretDependency:
		answer.Dependencies = []configv1alpha1.DependentObjectReference{{APIVersion: "v1", Kind: "ConfigMap", Namespace: of.Namespace, Name: object.Spec.Settings}}
	case configv1alpha1.InterpreterOperationRetain:
		patch(`[{"op":"add","path":"/spec/paused","value":%t}]`, observed.Spec.Paused)
	case configv1alpha1.InterpreterOperationInterpretStatus:
		answer.RawStatus = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"ready":%d,"by":"webhook"}`, object.Status.Ready)}
	case configv1alpha1.InterpreterOperationInterpretHealth:
		answer.Healthy = new(object.Status.Ready == object.Spec.Workers)
	case configv1alpha1.InterpreterOperationAggregateStatus:
		ready := int32(0)
		for _, item := range of.AggregatedStatus {
			if status := (crew{}); item.Status != nil && json.Unmarshal(item.Status.Raw, &status.Status) == nil {
				ready += status.Status.Ready
			}
		}
		patch(`[{"op":"add","path":"/status","value":{"ready":%d}}]`, ready)
	default:
		return answer, fmt.Errorf("nobody asks for %s", of.Operation)
	}
	return answer, nil
}
