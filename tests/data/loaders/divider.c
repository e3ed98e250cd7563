/* Dzielnik zegara: częstotliwość źródła przez żądaną. */


unsigned int divider(unsigned int src, unsigned int want)
{
	return (src + want - 1) / want;
}
