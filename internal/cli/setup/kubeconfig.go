// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-io/capstan/internal/cli/exit"
)

// hubContext is the context of a dedicated hub in the kubeconfig of the user.
// Its cluster and its user have the same name.
type hubContext struct {
	files clientcmd.ConfigAccess
	name  string
}

// checkNameFree returns an error if the name stands for something else than the hub that
// was found at the endpoint; an empty one stands for a hub that is only being made.
func (h hubContext) checkNameFree(endpoint string) error {
	config, err := h.files.GetStartingConfig()
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	taken := func(what, leads string) error {
		return exit.Next(fmt.Errorf("the kubeconfig has a %s %q already%s", what, h.name, leads),
			"Choose another name for that of the hub with --%s, or remove it by \"kubectl config delete-%s %s\".", flagHubContext, what, h.name)
	}
	if found := config.Contexts[h.name]; found != nil && (found.Cluster != h.name || found.AuthInfo != h.name) {
		return taken("context", fmt.Sprintf(", for the cluster %q", found.Cluster))
	}
	if found := config.Clusters[h.name]; found != nil && found.Server != endpoint {
		return taken("cluster", ", at "+found.Server)
	}
	return nil
}

// writeContext writes the context: what the kubeconfig says, at the endpoint. It returns
// until when the certificate in it is valid.
func (h hubContext) writeContext(endpoint string, kubeconfig []byte) (time.Time, error) {
	source, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the kubeconfig of the hub: %w", err)
	}
	current := source.Contexts[source.CurrentContext]
	if current == nil || source.Clusters[current.Cluster] == nil || source.AuthInfos[current.AuthInfo] == nil {
		return time.Time{}, errors.New("the kubeconfig of the hub has no current context that is complete")
	}
	cluster := source.Clusters[current.Cluster].DeepCopy()
	user := source.AuthInfos[current.AuthInfo].DeepCopy()
	cluster.Server = endpoint
	config, err := h.files.GetStartingConfig()
	if err != nil {
		return time.Time{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if old := config.Clusters[h.name]; old != nil {
		cluster.LocationOfOrigin = old.LocationOfOrigin
	}
	config.Clusters[h.name], config.AuthInfos[h.name] = cluster, user
	config.Contexts[h.name] = &clientcmdapi.Context{Cluster: h.name, AuthInfo: h.name}
	if err := clientcmd.ModifyConfig(h.files, *config, false); err != nil {
		return time.Time{}, fmt.Errorf("write context %q into the kubeconfig: %w", h.name, err)
	}
	return certificateExpiry(user.ClientCertificateData), nil
}

// removeContext removes the context if it leads to the endpoint, and reports whether it did.
func (h hubContext) removeContext(endpoint string) (bool, error) {
	config, err := h.files.GetStartingConfig()
	if err != nil {
		return false, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if found := config.Clusters[h.name]; found == nil || found.Server != endpoint {
		return false, nil
	}
	delete(config.Clusters, h.name)
	delete(config.AuthInfos, h.name)
	delete(config.Contexts, h.name)
	if config.CurrentContext == h.name {
		config.CurrentContext = ""
	}
	if err := clientcmd.ModifyConfig(h.files, *config, false); err != nil {
		return false, fmt.Errorf("remove context %q from the kubeconfig: %w", h.name, err)
	}
	return true, nil
}

// certificateExpiry returns until when the first certificate is valid; zero if there is none.
func certificateExpiry(certificates []byte) time.Time {
	block, _ := pem.Decode(bytes.TrimSpace(certificates))
	if block == nil {
		return time.Time{}
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return certificate.NotAfter
}
