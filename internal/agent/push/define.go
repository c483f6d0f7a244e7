// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"context"
	"fmt"
	"net/http"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/cluster/dial"
)

// memberDefinitions returns those of the kinds that the parts keep in a member, as
// "capstan join" installs them: who joins by other clients has not got them.
func memberDefinitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	definitions, err := config.SpokeCRDs()
	if err != nil {
		return nil, err
	}
	for _, definition := range definitions {
		definition.TypeMeta = metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"}
		metav1.SetMetaDataLabel(&definition.ObjectMeta, fleetv1alpha1.LabelPushCluster, "")
	}
	return definitions, nil
}

// ensureDefinitions creates what the cluster lacks of the definitions that the parts need, with
// the credential of the cluster. It changes none that are there. Without a problem all
// of them are served.
func (a *Agent) ensureDefinitions(ctx context.Context, name string, to *dial.Transport) dial.ConnectionProblem {
	var missing dial.ConnectionProblem
	for _, definition := range a.definitions {
		served, err := to.ServesResource(ctx, resourceOf(definition))
		if err != nil {
			return dial.ExplainFailure(err)
		}
		if served {
			continue
		}
		status, err := to.CreateDefinition(ctx, definition)
		if err != nil {
			return dial.ExplainFailure(err)
		}
		if status == http.StatusCreated {
			a.options.Log.Info("A definition was created in a Push cluster", "cluster", name, "name", definition.Name)
		}
		if missing.IsNone() || status != http.StatusCreated {
			missing = definitionProblem(definition.Name, status)
		}
	}
	return missing
}

// definitionProblem says what keeps a kind from being served, by the answer to the request to
// create its definition.
func definitionProblem(definition string, status int) dial.ConnectionProblem {
	lacks := fmt.Sprintf("the cluster lacks the CustomResourceDefinition %q, without which nothing can be delivered", definition)
	message := fmt.Sprintf("%s, and returns %d for its creation", lacks, status)
	switch status {
	case http.StatusCreated:
		message = fmt.Sprintf("the CustomResourceDefinition %q was created, and is not served yet", definition)
	case http.StatusConflict:
		message = fmt.Sprintf("the cluster has the CustomResourceDefinition %q, but does not serve it: see its conditions", definition)
	case http.StatusForbidden:
		message = lacks + ", and the account of the token may not create it (403); let it create customresourcedefinitions, " +
			`or have an administrator of the cluster use "capstan join"`
	}
	return dial.ConnectionProblem{Reason: fleetv1alpha1.ClusterConnectionReasonDefinitionsMissing, Message: message}
}

// resourceOf returns the resource of a definition as agents read and write it.
func resourceOf(definition *apiextensionsv1.CustomResourceDefinition) schema.GroupVersionResource {
	resource := schema.GroupVersionResource{Group: definition.Spec.Group, Resource: definition.Spec.Names.Plural}
	for _, version := range definition.Spec.Versions {
		if version.Storage {
			resource.Version = version.Name
		}
	}
	return resource
}
