// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package stored

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// noRetryTransport passes on that the hub asks to come back later: whoever asked decides
// whether to, and nobody waits here in the meantime.
type noRetryTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (i noRetryTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := i.next.RoundTrip(r)
	if err == nil {
		response.Header.Del("Retry-After") // client-go tries again if it is there; it is in the body as well
	}
	return response, err //nolint:wrapcheck // it is that of the request, to which it adds nothing
}

// NewHubClient returns a client of what the hub stores of a version of a group, whose
// types the scheme knows.
func NewHubClient(config *rest.Config, version schema.GroupVersion, scheme *runtime.Scheme) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return noRetryTransport{next: next} })
	config.GroupVersion = &version
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("set up the client of %s: %w", version, err)
	}
	return client, nil
}

// HubListOptions returns the options as the hub takes them.
func HubListOptions(o *internalversion.ListOptions) (metav1.ListOptions, error) {
	options := metav1.ListOptions{}
	if o == nil {
		return options, nil
	}
	if err := internalversion.Convert_internalversion_ListOptions_To_v1_ListOptions(o, &options, nil); err != nil {
		return options, apierrors.NewBadRequest(err.Error())
	}
	return options, nil
}
